import { describe, expect, it } from "vitest";
import { createContext } from "../command-context.ts";
import type { Context } from "../context.ts";
import type { GlobalFlags } from "./flags.ts";
import { collectHeaders, parseHeader } from "./values.ts";

function contextWith(flags: GlobalFlags, env: Record<string, string>): { context: Context; talk: string[] } {
  const talk: string[] = [];
  const terminal = {
    outIsTerminal: false,
    errIsTerminal: false,
    columns: 80,
    writeOut: () => Promise.resolve(),
    writeErr: (text: string) => void talk.push(text),
  };
  const signal = new AbortController().signal;
  const context = createContext({
    command: "ls",
    flags,
    env,
    terminal,
    signal,
    onExit: () => undefined,
    reportPath: undefined,
    inputs: [],
  });
  return { context, talk };
}

describe("collectHeaders()", () => {
  const env = { HF_TOKEN: "hf_secret" };

  it.each(["https://huggingface.co/a/b", "https://cdn-lfs.huggingface.co/x", "https://hf.co/x"])(
    "sends HF_TOKEN to the hub: %s",
    async (url) => {
      const { context } = contextWith({}, env);
      expect(await collectHeaders(context, url)).toEqual({ authorization: "Bearer hf_secret" });
    },
  );

  it.each([
    "https://example.org/x",
    "https://huggingface.co.evil.example/x",
    "https://nothuggingface.co/x",
    "http://huggingface.co/x",
  ])("keeps HF_TOKEN from all other servers: %s", async (url) => {
    const { context } = contextWith({}, env);
    expect(await collectHeaders(context, url)).toEqual({});
  });

  it("trusts the endpoint that the user named", async () => {
    const { context } = contextWith({}, { ...env, HF_ENDPOINT: "https://mirror.example" });
    expect(await collectHeaders(context, "https://mirror.example/x")).toEqual({ authorization: "Bearer hf_secret" });
  });

  it("warns about secrets on the command line, without repeating them", async () => {
    const { context, talk } = contextWith({ header: ["Authorization: Bearer abc", "Accept: text/plain"] }, {});
    expect(await collectHeaders(context, "https://example.org/x")).toEqual({
      authorization: "Bearer abc",
      accept: "text/plain",
    });
    expect(talk).toHaveLength(1);
    expect(talk[0]).toContain("--header-file");
    expect(talk[0]).not.toContain("abc");
  });
});

describe("parseHeader()", () => {
  it("splits at the first colon", () => {
    expect(parseHeader("X-Time: 12:30", "--header")).toEqual(["X-Time", "12:30"]);
  });

  it.each(["no colon", ": value", "Na me: x", "X: a\r\nHost: evil"])("refuses %j and hides it", (text) => {
    try {
      parseHeader(text, "--header");
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code: "usage/header" });
      expect(String(error)).not.toContain("evil");
    }
  });
});
