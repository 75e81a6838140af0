import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BUNDLED, checkBundled } from "../tools/third-party.ts";

const root = new URL("..", import.meta.url).pathname;

test("the package has the licence texts of everything that is bundled", () => {
  const text = readFileSync(join(root, "dist/THIRD-PARTY-LICENSES.txt"), "utf8");
  for (const { name, license } of BUNDLED) expect(text, name).toContain(`Licence: ${license}`);
  expect(text).toContain("Redistribution and use in source and binary forms");
  expect(text).toContain("Permission is hereby granted, free of charge");
  expect(text).toContain("Permission to use, copy, modify, and/or distribute");
  expect(text).toContain("Apache License");
});

test("a bundle of a package that is not listed is refused", () => {
  const output = (id: string) => [{ type: "chunk", moduleIds: ["/app/src/index.ts", id] }];
  expect(() => checkBundled(output("/app/node_modules/picocolors/picocolors.js"))).not.toThrow();
  expect(() => checkBundled(output("/app/node_modules/@other/one/index.js"))).toThrow("@other/one is bundled");
});

test("the SBOM lists what is bundled and what npm installs, the same each time", () => {
  const print = (): string =>
    execFileSync(process.execPath, ["--import", "tsx", join(root, "tools/sbom.ts")], { cwd: root, encoding: "utf8" });
  const text = print();
  const bom = JSON.parse(text) as {
    components: { name: string; "bom-ref": string; purl?: string; licenses: unknown[] }[];
    dependencies: { ref: string; dependsOn: string[] }[];
  };
  expect(bom).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.5", metadata: { component: { name: "tare" } } });
  const names = bom.components.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["preact", "zstd", "picocolors", "@cloudpss/zstd", "@node-rs/argon2"]));
  expect(bom.components.every(({ licenses }) => licenses.length === 1)).toBe(true);
  const refs = new Set(bom.components.map((component) => component["bom-ref"]));
  expect(refs.size).toBe(bom.components.length);
  for (const { dependsOn } of bom.dependencies) for (const ref of dependsOn) expect(refs, ref).toContain(ref);
  expect(print()).toBe(text);
});
