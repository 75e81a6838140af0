import { execFile } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { xorshiftBytes } from "../vectors/xorshift.ts";
import { type Run, scratch, TARE } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

/** Runs the program in a folder that is gone by then. */
function runInRemoved(folder: string, args: readonly string[]): Promise<Pick<Run, "code" | "out" | "err">> {
  mkdirSync(folder);
  const env = { ...process.env, NO_COLOR: "1", TARE_CACHE_SIZE: "0", XDG_STATE_HOME: `${folder}.state` };
  const script = 'rmdir "$0" && exec "$@"';
  return new Promise((settle) => {
    const words = ["-c", script, folder, process.execPath, TARE, ...args];
    execFile("sh", words, { cwd: folder, env }, (error, out, err) => {
      settle({ code: error === null ? 0 : Number(error.code), out, err });
    });
  });
}

describe.skipIf(process.platform === "win32")("a working directory that was removed", () => {
  const relative: readonly (readonly string[])[] = [
    ["inspect", "x"],
    ["inspect", "."],
    ["vault", "create", "x.aerovault", "--no-encryption"],
    ["vault", "create", "x.aerovault", "--no-encryption", "--dry-run"],
    ["vault", "add", "VAULT", "x"],
    ["vault", "extract", "VAULT", "-o", "x"],
    ["vault", "repair", "VAULT", "-o", "x"],
    ["vault", "parity", "VAULT", "export", "-o", "x"],
    ["convert", "MODEL", "x.safetensors"],
    ["extract", "MODEL", "-o", "x"],
    ["ls", "MODEL", "-o", "x"],
    ["pull", "http://127.0.0.1:9/x.gguf", "-o", "x"],
    ["push", "x", "s3://bucket/key"],
    ["keygen", "-o", "x"],
    ["correct", "gen", "x"],
    ["serve", ".", "--dry-run"],
    ["demo"],
  ];

  it("is told wherever a path begins there", async () => {
    const file = scratch();
    const paths: Readonly<Record<string, string>> = { VAULT: file("v"), MODEL: file("m.gguf", smallGguf()) };
    expect((await runInRemoved(file("first"), ["vault", "create", file("v"), "--no-encryption"])).code).toBe(0);
    for (const [i, args] of relative.entries()) {
      const done = await runInRemoved(
        file(`gone-${i}`),
        args.map((word) => paths[word] ?? word),
      );
      expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 9 });
      expect(done.err, args.join(" ")).toMatch(
        /: the working directory was removed \[source\/not-found\]\n {2}at {4}\S/,
      );
    }
  });

  it("does not matter to commands that are given full paths", async () => {
    const file = scratch();
    const [vault, model] = [file("v"), file("m.gguf", smallGguf())];
    file("noise", xorshiftBytes(20 << 20, 5n)); // long enough for threads
    const commands = [
      ["inspect", model],
      ["convert", model, file("m.safetensors")],
      ["vault", "create", vault, "--no-encryption", "--profile", "fast"],
      ["vault", "add", vault, file("noise"), model],
      ["vault", "extract", vault, "-o", file("out")],
      ["explain", "source/not-found"],
    ];
    for (const [i, args] of commands.entries()) {
      const done = await runInRemoved(file(`gone-${i}`), args);
      expect({ args, code: done.code, err: done.err }).toMatchObject({ code: 0 });
    }
    expect(readdirSync(join(file("out"))).sort()).toEqual(["m.gguf", "noise"]);
  });
});
