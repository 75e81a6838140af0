import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { inspect, pull } from "../../src/platform/node/index.ts";
import { folder, serve } from "../pull/pull-into.ts";
import { callTare } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

const FILE = "org/model/resolve/main/m.gguf";
const PAGE = "org/model/blob/main/m.gguf";

describe("the page of a file on the hub", () => {
  it("means the file, for every command that reads, and a note says so", async () => {
    const server = await serve({ [FILE]: smallGguf() });
    const env = { HF_ENDPOINT: server.url };
    const note = `note: ${server.url}${PAGE} is the page of a file; the file itself is read: ${server.url}${FILE}\n`;
    for (const verb of ["inspect", "ls", "verify"]) {
      const run = await callTare([verb, server.url + PAGE], { env });
      expect({ verb, ...run }).toMatchObject({ code: 0 });
      expect(run.err.split(note)).toHaveLength(2);
      expect(await callTare([verb, server.url + PAGE, "-q"], { env })).toMatchObject({ code: 0, err: "" });
    }
    const to = folder();
    expect(await callTare(["pull", server.url + PAGE, "-o", to], { env })).toMatchObject({
      code: 0,
      err: expect.stringContaining(note.trim()),
    });
    expect(new Uint8Array(readFileSync(join(to, "m.gguf")))).toEqual(new Uint8Array(smallGguf()));
  });

  it("means the file in the library, whose onNote says so", async () => {
    const server = await serve({ [FILE]: smallGguf() });
    const notes: string[] = [];
    const options = {
      env: { HF_ENDPOINT: server.url },
      cache: false,
      onNote: (text: string) => void notes.push(text),
    } as const;
    await inspect(new URL(server.url + PAGE), options);
    await pull(server.url + PAGE, folder(), options);
    expect(notes.filter((text) => text.includes("is the page of a file"))).toHaveLength(2);
  });

  it("is a page like any other elsewhere", async () => {
    const server = await serve({ [FILE]: smallGguf() });
    expect(await callTare(["inspect", server.url + PAGE])).toMatchObject({ code: 9 });
  });
});
