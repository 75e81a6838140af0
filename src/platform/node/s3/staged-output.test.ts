import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { sinkContract } from "../../../../test/contracts/sink-contract.ts";
import { MODEL, seed, startStore, startTestStore } from "../../../../test/support/s3-tools.ts";
import { s3Output } from "../../../bytes/s3/open.ts";
import { stagedOutput } from "./staged-output.ts";

sinkContract("s3, staged on disk", { reopen: "any" }, async () => {
  const { server, client, close } = await startStore();
  const root = await mkdtemp(join(tmpdir(), "tare-staged-"));
  const output = stagedOutput(s3Output(client, MODEL, { overwrite: "refuse" }), root);
  return {
    sink: await output.create(output.name),
    published: async () => {
      const object = server.objects.get(MODEL.key);
      return object === undefined ? undefined : new Uint8Array(object.bytes);
    },
    leftovers: async () => [...server.uploads.keys(), ...(await readdir(root))],
    dispose: async () => {
      await close();
      await rm(root, { recursive: true });
    },
  };
});

describe("stagedOutput()", () => {
  test("refuses an existing object before anything is written, and reads back what was written", async () => {
    const { server, client } = await startTestStore();
    const root = await mkdtemp(join(tmpdir(), "tare-staged-"));
    onTestFinished(() => rm(root, { recursive: true }));
    seed(server, MODEL.key, Uint8Array.of(1, 2, 3));
    const output = stagedOutput(s3Output(client, MODEL, { overwrite: "refuse" }), root);
    await expect(output.create(output.name)).rejects.toMatchObject({ code: "usage/exists" });
    expect(await readdir(root)).toEqual([]);
    expect((await output.peek?.(output.name))?.byteLength).toBe(3);
    expect(await output.peek?.("other")).toBeUndefined();
    await output.replace?.("note.json", Uint8Array.of(9));
    expect(server.objects.get("folder/note.json")?.bytes).toEqual(Buffer.of(9));
    await output.remove?.("note.json");
    expect(server.objects.has("folder/note.json")).toBe(false);
  });
});
