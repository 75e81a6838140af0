import { spawn } from "node:child_process";
import { closeSync, openSync, symlinkSync } from "node:fs";
import { expect, it } from "vitest";
import { scratch, TARE, tare } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

/** Runs the program with standard output on a device that is always full. */
async function tareToFullDisk(args: readonly string[]): Promise<{ code: number | null; err: string }> {
  const full = openSync("/dev/full", "w");
  const child = spawn(process.execPath, [TARE, ...args], {
    stdio: ["ignore", full, "pipe"],
    env: { ...process.env, NO_COLOR: "1", TARE_CACHE_SIZE: "0" },
  });
  closeSync(full);
  let err = "";
  child.stderr?.on("data", (piece: Buffer) => {
    err += piece;
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, err }));
  });
}

it.skipIf(process.platform !== "linux")("a full disk behind standard output is 8 and no bug", async () => {
  const file = scratch();
  const model = file("m.gguf", smallGguf());
  for (const args of [["ls", model], ["ls", model, "--json"], ["cat", model, "blk.0.attn_norm.weight"], ["--help"]]) {
    const { code, err } = await tareToFullDisk(args);
    expect({ args, code, err }).toMatchObject({ code: 8, err: expect.stringContaining("[source/no-space]") });
    expect(err).toContain("Cannot write to standard output: no space left");
    expect(err).not.toMatch(/bug|^\s+at .+:\d+:\d+/m);
  }
  // An error that cannot be printed as JSON keeps its exit code and is told on standard error.
  const missing = await tareToFullDisk(["ls", file("missing.gguf"), "--json"]);
  expect(missing).toMatchObject({ code: 9, err: expect.stringContaining("[source/not-found]") });
});

it.skipIf(process.platform === "win32")(
  "links in a circle and files used as folders are named as such everywhere",
  async () => {
    const file = scratch();
    const model = file("m.gguf", smallGguf());
    symlinkSync("loop", file("loop"));
    const verbs = [
      ["verify"],
      ["vault", "extract", "-o", file("out")],
      ["correct", "gen"],
      ["correct", "repair"],
      ["push"],
    ];
    for (const verb of verbs) {
      const rest = verb[0] === "push" ? ["s3://bucket/x"] : [];
      const loop = await tare([...verb, file("loop"), ...rest]);
      expect({ verb, ...loop }).toMatchObject({ code: 8, err: expect.stringContaining("too many symbolic links") });
      const inside = await tare([...verb, `${model}/x`, ...rest]);
      expect({ verb, ...inside }).toMatchObject({ code: 9, err: expect.stringContaining("is not a folder") });
    }
  },
);

it("a file on the way to the output folder is named as such by every command that fills one", async () => {
  const file = scratch();
  const model = file("m.gguf", smallGguf());
  const vault = file("v.aerovault");
  expect((await tare(["vault", "create", vault, "--no-encryption"])).code).toBe(0);
  for (const args of [
    ["vault", "extract", vault],
    ["extract", model],
    ["shard", model, "--max-size", "20"],
  ]) {
    const run = await tare([...args, "-o", `${model}/x`]);
    expect({ args, ...run }).toMatchObject({ code: 9, err: expect.stringContaining("is not a folder") });
  }
});

it("addresses that are none are 2, whatever token is set", async () => {
  for (const url of ["http://u:p@/x", "http://127.0.0.1:99999/x.gguf", "http://[::1/x", "https://"]) {
    const env = { HF_TOKEN: "hf_x" };
    expect(await tare(["inspect", url], { env })).toMatchObject({
      code: 2,
      err: expect.stringContaining("usage/http.url"),
    });
    const pulled = await tare(["pull", url, "-o", scratch()("out")], { env });
    expect(pulled).toMatchObject({ code: 2, err: expect.stringContaining("usage/http.url") });
  }
});
