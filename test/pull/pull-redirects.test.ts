import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { Bytes } from "../../src/base/bytes.ts";
import { aeroFile, folder, holds, noise, pullInto, setOf } from "./pull-into.ts";

const RECEIPT = ".tare-pull.json";
const MIB = 1 << 20;
const RIGHT = noise(6 * MIB, 1);
const OTHER = noise(6 * MIB, 2);

async function listen(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server of one file. Every one calls its file by the same tag, and confirms it. */
function holding(bytes: Bytes): Promise<string> {
  return listen(({ headers }, response) => {
    if (headers["if-none-match"] === '"same"') return void response.writeHead(304, { etag: '"same"' }).end();
    const [, first = 0, end = bytes.byteLength - 1] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
    const last = Math.min(Number(end), bytes.byteLength - 1);
    const fields = { etag: '"same"', "content-range": `bytes ${first}-${last}/${bytes.byteLength}` };
    response.writeHead(206, fields).end(bytes.subarray(Number(first), last + 1));
  });
}

/** An address that redirects to `lead.to` with the same path. */
async function redirecting(to: string): Promise<{ readonly url: string; readonly lead: { to: string } }> {
  const lead = { to };
  const origin = await listen((request, response) => {
    response.writeHead(302, { location: `${lead.to}${request.url}` }).end();
  });
  return { url: `${origin}/m.bin`, lead };
}

it("asks where redirects lead now, not where they led, whether a file is current", async () => {
  const [a, b] = [await holding(RIGHT), await holding(OTHER)];
  const { url, lead } = await redirecting(a);
  const to = folder();
  await pullInto(to, { url });
  expect((await pullInto(to, { url })).files[0]?.fetchedBytes).toBe(0);
  lead.to = b;
  await pullInto(to, { url });
  expect(holds(to, "m.bin", OTHER)).toBe(true);
});

it("does not believe a receipt that says that they led there", async () => {
  const [a, b] = [await holding(RIGHT), await holding(OTHER)];
  const { url, lead } = await redirecting(a);
  const to = folder();
  await pullInto(to, { url });
  const receipt = JSON.parse(readFileSync(join(to, RECEIPT), "utf8"));
  expect(receipt.files["m.bin"].via).toBe(`${a}/m.bin`);
  receipt.files["m.bin"].via = `${b}/m.bin`;
  writeFileSync(join(to, RECEIPT), JSON.stringify(receipt));
  lead.to = b;
  await pullInto(to, { url });
  expect(holds(to, "m.bin", OTHER)).toBe(true);
});

it.each(["there", "elsewhere"])("resumes an unfinished file only where redirects still lead: %s", async (now) => {
  const [a, b] = [await holding(RIGHT), await holding(OTHER)];
  const { url, lead } = await redirecting(a);
  const to = folder();
  const stop = new AbortController();
  let done = 0;
  const first = pullInto(to, {
    url,
    concurrency: 1,
    signal: stop.signal,
    onProgress: (byteLength) => {
      done += byteLength;
      if (done > 3 * MIB) stop.abort(new Error("killed"));
    },
  });
  await expect(first).rejects.toThrow("killed");
  if (now === "elsewhere") lead.to = b;
  const { files } = await pullInto(to, { url });
  if (now === "there") expect(files[0]?.resumedBytes).toBeGreaterThan(0);
  else expect(files[0]?.resumedBytes).toBe(0);
  expect(holds(to, "m.bin", now === "there" ? RIGHT : OTHER)).toBe(true);
});

it("takes the index of a set for current where they lead, and fetches it where they lead now", async () => {
  const part = aeroFile(noise(4000, 3));
  const sets = ["one", "two"].map((name) => {
    const set = setOf({ "part-000.aero": part }, aeroFile(noise(400, 4)));
    const text = Buffer.from(set["model.aeroset.json"] as Bytes)
      .toString()
      .replace('"name": "m"', `"name": "${name}"`);
    return { ...set, "model.aeroset.json": new Uint8Array(Buffer.from(text)) } as Record<string, Bytes>;
  });
  const [a = "", b = ""] = await Promise.all(
    sets.map((set) => {
      return listen(({ url = "", headers }, response) => {
        const bytes = set[url.slice(1)];
        if (bytes === undefined) return void response.writeHead(404).end();
        const isKnown = headers["if-none-match"] === '"same"';
        response.writeHead(isKnown ? 304 : 200, { etag: '"same"' }).end(isKnown ? undefined : bytes);
      });
    }),
  );
  const { url, lead } = await redirecting(a);
  const to = folder();
  const index = { url: url.replace("m.bin", "model.aeroset.json") };
  await pullInto(to, index);
  const { files } = await pullInto(to, index);
  expect(files.map(({ fetchedBytes }) => fetchedBytes)).toEqual(files.map(() => 0));
  lead.to = b;
  await pullInto(to, index);
  expect(holds(to, "model.aeroset.json", sets[1]?.["model.aeroset.json"] as Bytes)).toBe(true);
});
