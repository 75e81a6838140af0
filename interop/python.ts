import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const VENV_PYTHON = `${FOLDER}.venv/bin/python`;
const PROBE = "import gguf, numpy, safetensors";

/** The interpreter with the packages: the one in interop/.venv, or the system's; undefined if neither has them. */
export function findPython(): string | undefined {
  const candidates = [VENV_PYTHON, "python3"].filter((path) => path === "python3" || existsSync(path));
  return candidates.find((path) => spawnSync(path, ["-c", PROBE]).status === 0);
}

/** Makes interop/.venv with the pinned packages; needs the network. */
export function installPython(): void {
  execFileSync("python3", ["-m", "venv", `${FOLDER}.venv`], { stdio: "inherit" });
  execFileSync(VENV_PYTHON, ["-m", "pip", "install", "-r", `${FOLDER}requirements.txt`], { stdio: "inherit" });
}

/** Versions of the packages, for the report. */
export function pythonVersions(python: string): string {
  const code =
    "import importlib.metadata as m; print(', '.join(f'{p} {m.version(p)}' for p in ('safetensors', 'gguf', 'numpy')))";
  return execFileSync(python, ["-c", code], { encoding: "utf8" }).trim();
}

/** Runs a script of this folder; its standard output is JSON. */
export function runScript<T>(
  python: string,
  script: string,
  options: { args?: readonly string[]; input?: unknown },
): T {
  const output = execFileSync(python, [`${FOLDER}${script}`, ...(options.args ?? [])], {
    input: JSON.stringify(options.input ?? null),
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
  });
  return JSON.parse(output) as T;
}
