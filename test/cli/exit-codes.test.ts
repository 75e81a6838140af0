import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { scratch, tare } from "./run-tare.ts";
import { nanSafetensors, smallGguf, smallSafetensors } from "./small-models.ts";

it("usage errors are 2 and name what was probably meant", async () => {
  const file = scratch();
  const model = file("m.safetensors", smallSafetensors());
  const [command, flag, missing, extra, unknown] = await Promise.all([
    tare(["inspcet", model]),
    tare(["ls", model, "--lnog"]),
    tare(["ls"]),
    tare(["map", model, "x"]),
    tare(["weigh", "x"]),
  ]);
  expect(command).toMatchObject({ code: 2, out: "", err: expect.stringContaining('Did you mean "inspect"?') });
  expect(flag).toMatchObject({ code: 2, out: "", err: expect.stringContaining("Did you mean --long?") });
  expect(missing).toMatchObject({ code: 2, err: expect.stringContaining("tare ls TARGET… [GLOB…]") });
  expect(extra).toMatchObject({ code: 2, err: expect.stringContaining("[usage/arguments]") });
  expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining("unknown command") });
});

it("what is missing is 9", async () => {
  const file = scratch();
  const model = file("m.safetensors", smallSafetensors());
  const runs = await Promise.all([
    tare(["inspect", file("nothing.gguf")]),
    tare(["cat", model, "model.norm.weigth"]),
    tare(["ls", model, "no-such-*"]),
    tare(["explain", "format/emtpy"]),
  ]);
  expect(runs.map((run) => run.code)).toEqual([9, 9, 9, 2]);
  expect(runs[1]?.err).toContain('Did you mean "model.norm.weight"?');
  expect(runs[3]?.err).toContain("format/empty");
});

it("stats ends with 3 for NaN and Inf, diff with 3 only where asked", async () => {
  const file = scratch();
  const [nan, a, b] = [
    file("n.safetensors", nanSafetensors()),
    file("a.safetensors", smallSafetensors()),
    file("b.gguf", smallGguf()),
  ];
  const [stats, plain, strict, same] = await Promise.all([
    tare(["stats", nan]),
    tare(["diff", a, b]),
    tare(["diff", a, b, "--exit-code"]),
    tare(["diff", a, a, "--exit-code"]),
  ]);
  expect([stats.code, plain.code, strict.code, same.code]).toEqual([3, 0, 3, 0]);
  expect(stats.out).toContain("1 tensor with NaN or Inf");
  expect(strict.out).toContain("blk.0.attn_norm.weight");
});

it("nothing is overwritten without --force, and the refusal comes before the work", async () => {
  const file = scratch();
  const model = file("m.safetensors", smallSafetensors());
  const taken = file("taken.gguf", "mine");
  const runs = await Promise.all([
    tare(["convert", model, taken]),
    tare(["convert", model, taken, "--dry-run"]),
    tare(["cat", model, "model.norm.weight", "-o", taken]),
    tare(["merge", model, "-o", taken]),
    tare(["ls", model, "-o", taken]),
  ]);
  expect(runs.map((run) => run.code)).toEqual([2, 2, 2, 2, 2]);
  for (const run of runs) expect(run.err).toContain("[usage/exists]");
  const forced = await tare(["convert", model, taken, "--force"]);
  expect(forced.code).toBe(0);
  expect((await tare(["verify", taken])).code).toBe(0);
});

it("--dry-run writes nothing and ends as the real run would", async () => {
  const file = scratch();
  const model = file("m.safetensors", smallSafetensors());
  const [convert, shard, extract] = await Promise.all([
    tare(["convert", model, file("out.gguf"), "--dry-run"]),
    tare(["shard", model, "-o", file("shards"), "--max-size", "20", "--dry-run"]),
    tare(["extract", model, "-o", file("parts"), "--dry-run"]),
  ]);
  expect([convert.code, shard.code, extract.code]).toEqual([0, 0, 0]);
  expect(convert.out).toContain("would write");
  expect(["out.gguf", "shards", "parts"].map((name) => existsSync(file(name)))).toEqual([false, false, false]);
});

it("a reader that leaves early is no error", async () => {
  const { spawnSync } = await import("node:child_process");
  const { TARE } = await import("./run-tare.ts");
  const { manyTensors } = await import("./small-models.ts");
  const model = scratch()("many.safetensors", manyTensors(5000));
  const script = `"${process.execPath}" "${TARE}" ls "${model}" | head -n 1; echo "\${PIPESTATUS[0]}"`;
  const run = spawnSync("bash", ["-c", script], { encoding: "utf8" });
  expect(run.stderr).toBe("");
  expect(run.stdout.trim().split("\n")).toEqual([expect.stringContaining("model.layers.0."), "0"]);
});

it("a command that waits for what never happens is a bug that is told, not a success", async () => {
  const file = scratch();
  const model = file("m.gguf", smallGguf());
  const patch = `import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const open = fs.promises.open;
    fs.promises.open = (path, ...rest) => (path === ${JSON.stringify(model)} ? new Promise(() => {}) : open(path, ...rest));
    syncBuiltinESMExports();`;
  const env = { NODE_OPTIONS: `--import=file://${file("patch.mjs", patch)}` };
  for (const more of [[], ["--json"]]) {
    const { code, out, err } = await tare(["ls", model, ...more], { env });
    expect(code).toBe(1);
    expect(`${out}${err}`).toContain("standstill");
    expect(`${out}${err}`).toContain("internal/bug");
  }
});
