import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { aeroFile, folder, noise, serve } from "../pull/pull-into.ts";
import { callTare, TARE } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

const MIB = 1 << 20;

describe("tare pull", () => {
  it("goes on after kill -9 and fetches no more than a piece for each connection twice", async () => {
    const file = aeroFile(noise(24 * MIB), 4 * MIB);
    const server = await serve({ "m.aero": file });
    const to = folder();
    server.setFault(() => ({ bytesPerSecond: 8 * MIB }));
    const child = spawn(process.execPath, [TARE, "pull", `${server.url}m.aero`, "-o", to, "--concurrency", "2"]);
    const journal = join(to, "m.aero.tare-pull");
    // Two records of 24 bytes behind the first line: the tables and a page.
    const recorded = (bytes: Buffer): boolean => bytes.byteLength - bytes.indexOf("\n") > 48;
    while (!existsSync(journal) || !recorded(readFileSync(journal))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(existsSync(join(to, "m.aero"))).toBe(false);
    server.setFault(undefined);
    const run = await callTare(["pull", `${server.url}m.aero`, "-o", to, "--concurrency", "2", "--json"]);
    expect(run.code).toBe(0);
    const document = JSON.parse(run.out);
    const schema = JSON.parse(readFileSync(new URL("../../schemas/pull.schema.json", import.meta.url), "utf8"));
    expect(new Ajv2020().validate(schema, document)).toBe(true);
    const [result] = document.files;
    expect(result).toMatchObject({ byteLength: file.byteLength, verified: "pages" });
    expect(result.resumedBytes).toBeGreaterThanOrEqual(4 * MIB);
    expect(result.resumedBytes + result.fetchedBytes).toBe(file.byteLength);
    expect(Buffer.compare(readFileSync(join(to, "m.aero")), file)).toBe(0);
    expect(readdirSync(to).sort()).toEqual([".tare-pull.json", "m.aero"]);
  });

  it("writes the tensors of --include as a smaller model", async () => {
    const server = await serve({ "m.safetensors": smallSafetensors() });
    const to = folder();
    const env = { TARE_CACHE: join(to, "cache") };
    const args = ["pull", `${server.url}m.safetensors`, "-o", to, "--include", "*embed*", "--json"];
    const run = await callTare(args, { env });
    expect(run.code).toBe(0);
    const listed = await callTare(["ls", join(to, "m.safetensors"), "--json"]);
    expect(JSON.parse(listed.out).tensors.map(({ name }: { name: string }) => name)).toEqual([
      "model.embed_tokens.weight",
    ]);
    expect((await callTare([...args.slice(0, 5), "nothing*"], { env })).code).toBe(9);
  });

  it("says what it would do, what it cannot do, and what was not compared", async () => {
    const server = await serve({ "m.bin": noise(1000) });
    const to = join(folder(), "new");
    const dry = await callTare(["pull", `${server.url}m.bin`, "-o", to, "--dry-run"]);
    expect(dry.out).toContain("would pull 1 file, 1.00 kB");
    expect(existsSync(join(to, "m.bin"))).toBe(false);
    const run = await callTare(["pull", `${server.url}m.bin`, "-o", to]);
    expect(run.err).toContain("not compared with anything");
    expect((await callTare(["pull", `${server.url}no.bin`, "-o", to])).code).toBe(9);
    expect((await callTare(["pull", "m.bin", "-o", to])).code).toBe(2);
    expect((await callTare(["pull", `${server.url}m.bin`])).code).toBe(2);
    expect((await callTare(["pull", `${server.url}m.bin`, "-o", to, "--offline"])).code).toBe(8);
  });
});
