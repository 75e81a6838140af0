import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Outcome } from "../outcome.ts";
import type { Program } from "../s3/program.ts";
import type { Answer, Reference } from "./reference.ts";

export interface Setting {
  readonly tare: Program;
  readonly reference: Reference;
  /** Files to store, with text.txt, noise.bin and model.safetensors. `folder` takes vaults and extracted files. */
  readonly tree: string;
  readonly folder: string;
}

const PASSWORD = "correct horse battery staple";

/** Contents by path, as both programs must give them back. */
type Contents = Map<string, string>;

function contentsOf(directory: string): Contents {
  const contents: Contents = new Map();
  for (const path of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    const full = join(directory, path);
    contents.set(path, statSync(full).isDirectory() ? "directory" : readFileSync(full).toString("latin1"));
  }
  return contents;
}

function differences(found: Contents, expected: Contents): string[] {
  const missing = [...expected.keys()].filter((path) => !found.has(path)).map((path) => `lacks ${path}`);
  const wrong = [...found].filter(([path, content]) => expected.get(path) !== content);
  return [...missing, ...wrong.map(([path]) => `has another ${path}`)];
}

function problemOf({ code, text }: Answer): string[] {
  return code === 0 ? [] : [`exit code ${code}: ${text.slice(-300)}`];
}

/** Runs every verb of ours in turn; after each, the reference lists, extracts and scrubs the vault. */
export async function readByReference(setting: Setting, flags: readonly string[]): Promise<Outcome> {
  const { tare, reference, tree, folder } = setting;
  const outcome = new Outcome(`written by tare ${flags.join(" ")}, read by the reference`);
  const vault = join(folder, "ours.aerovault");
  const out = join(folder, "theirs-out");
  rmSync(vault, { force: true });
  let password = PASSWORD;
  const expected = new Map([...contentsOf(tree)].map(([path, content]) => [join("tree", path), content]));
  expected.set("tree", "directory");

  const step = async (verb: string, args: readonly string[], change: () => void = () => {}): Promise<void> => {
    const { code, err } = await tare.run(["vault", verb, vault, ...args], { TARE_PASSWORD: password });
    outcome.check(`tare vault ${verb}`, code === 0 ? [] : [`exit code ${code}: ${err.slice(0, 300)}`]);
    change();
    rmSync(out, { recursive: true, force: true });
    for (const asked of [
      ["list", vault],
      ["scrub", vault],
      ["extract", vault, "-o", out],
    ]) {
      outcome.check(`${asked[0]} after ${verb}`, problemOf(await reference.run(asked, password)));
    }
    outcome.check(`contents after ${verb}`, differences(contentsOf(out), expected));
  };

  const created = await tare.run(["vault", "create", vault, ...flags], { TARE_PASSWORD: password });
  outcome.check("tare vault create", created.code === 0 ? [] : [created.err]);
  outcome.check("list of an empty vault", problemOf(await reference.run(["list", vault], password)));
  await step("add", [tree]);
  await step("mkdir", ["new/deep"], () => {
    for (const path of ["new", "new/deep"]) expected.set(path, "directory");
  });
  await step("cp", ["tree/text.txt", "new/copy.txt"], () => {
    expected.set("new/copy.txt", expected.get("tree/text.txt") as string);
  });
  await step("mv", ["tree/noise.bin", "new/deep/noise.bin"], () => {
    expected.set("new/deep/noise.bin", expected.get("tree/noise.bin") as string);
    expected.delete("tree/noise.bin");
  });
  await step("rm", ["tree/model.safetensors"], () => expected.delete("tree/model.safetensors"));
  await step("compact", []);
  await step("add", [join(tree, "model.safetensors"), "--to", "tree"], () => {
    expected.set("tree/model.safetensors", readFileSync(join(tree, "model.safetensors"), "latin1"));
  });
  for (const [next, more] of [
    ["a longer battery of staples", []],
    ["staples without a horse", ["--rekey"]],
  ] as const) {
    const file = join(folder, "next-password");
    writeFileSync(file, next);
    await step("passwd", ["--new-password-file", file, ...more], () => {
      password = next;
    });
  }
  return outcome;
}

/** Reads and checks what the reference wrote and changed. */
export async function readByTare(setting: Setting, flags: readonly string[]): Promise<Outcome> {
  const { tare, reference, tree, folder } = setting;
  const outcome = new Outcome(`written by the reference ${flags.join(" ")}, read by tare`);
  const vault = join(folder, "theirs.aerovault");
  const out = join(folder, "ours-out");
  rmSync(vault, { force: true });
  const env = { TARE_PASSWORD: PASSWORD };
  const expected = contentsOf(tree);
  outcome.check("create", problemOf(await reference.run(["create", vault, ...flags], PASSWORD, PASSWORD)));
  const verbs: readonly (readonly [verb: readonly string[], change?: () => void])[] = [
    [["add-dir", vault, tree]],
    [["mkdir", vault, "new"], () => expected.set("new", "directory")],
    [
      ["copy", vault, "text.txt", "new/copy.txt"],
      () => expected.set("new/copy.txt", expected.get("text.txt") as string),
    ],
    [["rm", vault, "noise.bin"], () => expected.delete("noise.bin")],
  ];
  for (const [verb, change] of verbs) {
    outcome.check(`${verb[0]}`, problemOf(await reference.run(verb, PASSWORD)));
    change?.();
    rmSync(out, { recursive: true, force: true });
    for (const asked of [
      ["vault", "ls", vault],
      ["vault", "scrub", vault],
      ["verify", "--full", vault],
      ["vault", "extract", vault, "-o", out],
    ]) {
      const { code, err } = await tare.run(asked, env);
      outcome.check(
        `${asked.slice(0, 2).join(" ")} after ${verb[0]}`,
        code === 0 ? [] : [`exit code ${code}: ${err.slice(0, 300)}`],
      );
    }
    outcome.check(`contents after ${verb[0]}`, differences(contentsOf(out), expected));
  }
  return outcome;
}
