import { describe, expect, it } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { createContext } from "../command-context.ts";
import type { Context } from "../context.ts";
import { BrokenPipe, type Terminal } from "../terminal/terminal.ts";
import { checkStandardOutput, stdoutSink } from "./outputs.ts";

function fakeTerminal(outIsTerminal: boolean): Terminal & { readonly written: string[] } {
  const written: string[] = [];
  return {
    outIsTerminal,
    errIsTerminal: false,
    columns: 80,
    written,
    async writeOut(content: string | Bytes) {
      // Slow first writes must not be overtaken by quick later ones.
      await new Promise((resolve) => setTimeout(resolve, 4 - written.length));
      written.push(String(content));
    },
    writeErr: () => undefined,
  };
}

function contextOn(terminal: Terminal): Context {
  const { signal } = new AbortController();
  return createContext({
    command: "cat",
    flags: {},
    env: {},
    terminal,
    signal,
    onExit: () => undefined,
    reportPath: undefined,
    inputs: [],
  });
}

describe("checkStandardOutput()", () => {
  it("keeps bytes off a terminal, and lets them into a pipe", () => {
    expect(() => checkStandardOutput(contextOn(fakeTerminal(true)))).toThrow(
      expect.objectContaining({ code: "usage/binary-to-terminal", hint: expect.stringContaining("-o") }),
    );
    expect(checkStandardOutput(contextOn(fakeTerminal(false)))).toBeUndefined();
  });
});

describe("stdoutSink()", () => {
  it("fails if the reader is gone", async () => {
    const terminal = { ...fakeTerminal(false), writeOut: () => Promise.reject(new BrokenPipe()) };
    const sink = stdoutSink(terminal);
    await expect(sink.append(Uint8Array.of(1))).rejects.toMatchObject({ code: "source/io" });
    await expect(sink.commit()).rejects.toMatchObject({ code: "source/io" });
  });
  it("lands appends in call order and counts them", async () => {
    const terminal = fakeTerminal(false);
    const sink = stdoutSink(terminal);
    void sink.append(Uint8Array.of(1));
    void sink.append(Uint8Array.of(2, 3));
    expect(sink.position).toBe(3);
    await sink.commit();
    expect(terminal.written).toEqual(["1", "2,3"]);
  });
});
