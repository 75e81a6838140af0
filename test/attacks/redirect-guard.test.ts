import { describe, expect, test } from "vitest";
import type { NodeTransportOptions } from "../../src/platform/node/http/transport.ts";
import { bodyOf, get, make, wire } from "../support/transport-tools.ts";
import type { WireServer } from "../support/wire-server.ts";

const PUBLIC = "93.184.216.34";

/** A server that sends /r to the address given, and answers everything else. */
const leading = (location: () => string): Promise<WireServer> =>
  wire((socket, head) => {
    const reply = head.startsWith("GET /r ")
      ? `HTTP/1.1 302 Found\r\nLocation: ${location()}\r\nContent-Length: 0\r\n\r\n`
      : "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    socket.write(reply);
  });

/** Names and what they resolve to; a list of lists changes with every question. */
function names(table: Record<string, readonly string[]>): NonNullable<NodeTransportOptions["lookup"]> {
  return async (name) => table[name] ?? Promise.reject(new Error("unknown name"));
}

describe("a redirect into the private network", () => {
  test("is refused where the server that sends it has a public address beside its private one", async () => {
    const inside = await leading(() => "/");
    const from = await leading(() => `${inside.origin}/x`);
    const url = `${from.origin.replace("127.0.0.1", "localhost")}/r`;
    const mixed = make({ lookup: names({ localhost: ["10.0.0.1", PUBLIC] }) });
    await expect(mixed.request(get(url))).rejects.toMatchObject({ code: "source/http.redirect" });
    const unknown = make({ lookup: names({}) });
    await expect(unknown.request(get(url))).rejects.toMatchObject({ code: "source/http.redirect" });
    expect(inside.seen).toEqual([]);
    // One that is private by every address may do so: a local registry and its store.
    const own = make({ lookup: names({ localhost: ["127.0.0.1", "::1"] }) });
    expect(await bodyOf(await own.request(get(url)))).toBe("secret");
  });
  test("is refused where one of the target's addresses is private", async () => {
    const from = await leading(() => "http://both.test/x");
    const url = `${from.origin.replace("127.0.0.1", "localhost")}/r`;
    const lookup = names({ localhost: [PUBLIC], "both.test": [PUBLIC, "::ffff:127.0.0.1"] });
    await expect(make({ lookup }).request(get(url))).rejects.toMatchObject({ code: "source/http.redirect" });
  });
  test("is not followed by another way: the connection goes to the address that was judged", async () => {
    const inside = await leading(() => "/");
    const { port } = new URL(inside.url);
    // By now the name leads to the server; when it was judged, to an address where nothing listens.
    const from = await leading(() => `http://localhost:${port}/x`);
    const asked: string[] = [];
    const transport = make({
      timeoutMs: 500,
      lookup: async (name) => {
        asked.push(name);
        return ["127.0.0.2"];
      },
    });
    // A connection that is open already to the same name, at an address that was not judged.
    expect(await bodyOf(await transport.request(get(`http://localhost:${port}/warm`)))).toBe("secret");
    const before = inside.seen.join("").length;
    await expect(transport.request(get(`${from.origin}/r`))).rejects.toMatchObject({ name: "SourceError" });
    expect(asked).toEqual(["localhost"]);
    expect(inside.seen.join("").length).toBe(before);
  });
  test("fails where the name of the target is not known, whatever it leads to a moment later", async () => {
    const inside = await leading(() => "/");
    const from = await leading(() => `http://localhost:${new URL(inside.url).port}/x`);
    const lookup = names({ "127.0.0.1": ["127.0.0.1"] });
    await expect(make({ lookup }).request(get(`${from.origin}/r`))).rejects.toMatchObject({
      code: "source/http.unreachable",
    });
    expect(inside.seen).toEqual([]);
  });
});

describe("where a redirect may lead", () => {
  test("is for the caller to refuse, before anything is asked there", async () => {
    const to = await leading(() => "/");
    const from = await leading(() => `${to.origin}/x`);
    const heard: string[] = [];
    const refusal = new Error("not there");
    const onRedirect = (url: string): void => {
      heard.push(url);
      throw refusal;
    };
    await expect(make().request(get(`${from.origin}/r`, { onRedirect }))).rejects.toBe(refusal);
    expect(heard).toEqual([`${to.origin}/x`]);
    expect(to.seen).toEqual([]);
  });
  test("is judged before its name is looked up", async () => {
    const from = await leading(() => "http://told-by-its-name.test/x");
    const asked: string[] = [];
    const lookup = async (name: string): Promise<readonly string[]> => {
      asked.push(name);
      return ["127.0.0.1"];
    };
    const onRedirect = (): void => {
      throw new Error("not there");
    };
    await expect(make({ lookup }).request(get(`${from.origin}/r`, { onRedirect }))).rejects.toThrow("not there");
    const none = make({ lookup, maxRedirects: 0 }).request(get(`${from.origin}/r`));
    await expect(none).rejects.toMatchObject({ code: "source/http.redirect" });
    expect(asked).toEqual([]);
  });
});
