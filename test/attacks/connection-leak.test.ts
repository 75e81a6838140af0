import { describe, expect, test } from "vitest";
import { nodeEngine } from "../../src/platform/node/engine/engine.ts";
import { open, openModel } from "../../src/platform/node/index.ts";
import { openTarget } from "../../src/platform/node/targets.ts";
import { buildSafetensors, patternBytes } from "../builders/safetensors.ts";
import { start } from "../support/transport-tools.ts";

const MODEL = buildSafetensors(
  ["a", "b"].map((name) => ({ name, dtype: "U8", shape: [400_000], bytes: patternBytes(400_000) })),
);

/** A server of one file in ranges, and how many connections to it are open. */
async function serve(file: Uint8Array): Promise<{ url: string; connections: () => Promise<number> }> {
  const { server, url } = await start((request, response) => {
    const [, from = 0, to = 0] = (/bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "") ?? []).map(Number);
    const body = file.subarray(from, Math.min(to + 1, file.byteLength));
    const range = `bytes ${from}-${from + body.byteLength - 1}/${file.byteLength}`;
    response.writeHead(206, { "content-range": range, "content-length": body.byteLength, etag: '"a"' }).end(body);
  });
  const connections = (): Promise<number> =>
    new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
  return { url, connections };
}

describe("a remote file that is closed leaves no connection behind", () => {
  const rounds = Array.from({ length: 10 });

  test("opened as a model and read, as a container, as a target", async () => {
    const { url, connections } = await serve(MODEL);
    for (const _ of rounds) {
      const model = await openModel(url);
      await Promise.all(model.tensors.map((tensor) => tensor.bytes()));
      await model.close();
      await (await open(url)).close();
      await (await openTarget(url, { engine: await nodeEngine() })).close();
    }
    await expect.poll(connections).toBe(0);
  });
  test("and neither does one that is no model, or is given up", async () => {
    const { url, connections } = await serve(new Uint8Array(300_000).fill(7));
    for (const _ of rounds) {
      await expect(open(url)).rejects.toMatchObject({ name: expect.stringContaining("Error") });
      const stop = new AbortController();
      const opening = open(url, { signal: stop.signal });
      stop.abort(new Error("enough"));
      await expect(opening).rejects.toThrow();
    }
    await expect.poll(connections).toBe(0);
  });
});
