import { describe, expect, test } from "vitest";
import { credentialsOf, findProxy } from "./proxy-environment.ts";

describe("findProxy()", () => {
  const find = (url: string, environment: Record<string, string>) => findProxy(new URL(url), environment)?.href;

  test("looks at the scheme, then at all_proxy; lower case first", () => {
    expect(find("https://x.org/", { https_proxy: "http://a:1", HTTPS_PROXY: "http://b:1" })).toBe("http://a:1/");
    expect(find("https://x.org/", { HTTPS_PROXY: "http://b:1" })).toBe("http://b:1/");
    expect(find("https://x.org/", { http_proxy: "http://a:1" })).toBeUndefined();
    expect(find("http://x.org/", { HTTP_PROXY: "a:3128" })).toBe("http://a:3128/");
    expect(find("http://x.org/", { ALL_PROXY: "socks5://a:1080" })).toBe("socks5://a:1080");
    expect(find("http://x.org/", { http_proxy: "", all_proxy: "" })).toBeUndefined();
  });
  test.each([
    ["*", true],
    ["x.org", true],
    [".x.org", true],
    ["*.x.org", true],
    ["org", true],
    ["a.x.org:8080", true],
    ["a.x.org:80", false],
    ["y.org, x.org", true],
    ["b.x.org", false],
    ["ax.org", false],
    ["", false],
  ])("no_proxy %j excepts http://a.x.org:8080: %s", (list, excepted) => {
    const found = find("http://a.x.org:8080/", { http_proxy: "http://p:1", NO_PROXY: list });
    expect(found === undefined).toBe(excepted);
  });
  test("refuses anything but a proxy URL, without showing it", () => {
    const look = () => find("http://x.org/", { http_proxy: "ftp://me:secret@a" });
    expect(look).toThrow(expect.objectContaining({ name: "UsageError", code: "usage/http.proxy" }));
    expect(look).toThrow(expect.objectContaining({ message: expect.not.stringContaining("secret") }));
  });
  test.each(["http://50%:secret@a:1", "socks5://me:sec%ret@a", "https://%ff:secret@a"])(
    "refuses %s, whose user or password is not well encoded, without showing it",
    (proxy) => {
      const look = () => find("https://x.org/", { https_proxy: proxy });
      expect(look).toThrow(expect.objectContaining({ name: "UsageError", code: "usage/http.proxy" }));
      expect(look).toThrow(expect.objectContaining({ message: expect.not.stringMatching(/sec%?ret/) }));
    },
  );
  test("takes percent-encoded characters in a user and a password", () => {
    const proxy = findProxy(new URL("https://x.org/"), { https_proxy: "http://50%25:p%40ss@a:1" });
    expect(credentialsOf(proxy as URL)).toEqual({ user: "50%", secret: "p@ss" });
  });
});
