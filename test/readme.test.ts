import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = new URL("..", import.meta.url).pathname;
const bin = join(root, "dist/bin/tare.js");

test("the README's TypeScript runs as printed, on the model that the demo makes", () => {
  expect(existsSync(bin), "run npm run build first").toBe(true);
  const example = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1] ?? "";
  const folder = mkdtempSync(join(tmpdir(), "tare-readme-"));
  // Inside the package, so that it can import itself by name.
  const script = join(root, `.readme-example-${process.pid}.mjs`);
  try {
    execFileSync(process.execPath, [bin, "demo", "-q"], { cwd: folder });
    writeFileSync(script, example);
    const output = execFileSync(process.execPath, [script], { cwd: folder, encoding: "utf8" });
    expect(output.trim()).toBe("safetensors 39 BF16 [ 512, 128 ] 256");
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(script, { force: true });
  }
});
