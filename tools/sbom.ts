import { readFileSync, writeFileSync } from "node:fs";
import { BUNDLED } from "./third-party.ts";

/**
 * `npm run sbom`: a CycloneDX document of what the package contains and what npm installs with it. Prints it, and writes
 * it to dist/sbom.cdx.json. The same tree gives the same bytes.
 */

const root = new URL("..", import.meta.url).pathname;

interface LockedPackage {
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly optional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

interface Component {
  readonly type: "library";
  readonly "bom-ref": string;
  readonly name: string;
  readonly version?: string;
  readonly purl?: string;
  readonly scope?: "required" | "optional";
  readonly licenses?: readonly { readonly license: { readonly id: string } }[];
  readonly hashes?: readonly { readonly alg: "SHA-512"; readonly content: string }[];
  readonly properties?: readonly { readonly name: string; readonly value: string }[];
}

const own = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as LockedPackage & { readonly name: string };
const lock = JSON.parse(readFileSync(`${root}package-lock.json`, "utf8")) as {
  readonly packages: Readonly<Record<string, LockedPackage>>;
};

const purlOf = (name: string, version: string): string => `pkg:npm/${name.replace(/^@/, "%40")}@${version}`;
const lockedOf = (name: string): LockedPackage | undefined => lock.packages[`node_modules/${name}`];

/** Every package that npm installs with this one, and the names that each needs. */
function installed(): Map<string, readonly string[]> {
  const needs = new Map<string, readonly string[]>();
  const queue = Object.keys({ ...own.dependencies, ...own.optionalDependencies });
  for (const name of queue) {
    const found = lockedOf(name);
    if (found === undefined || needs.has(name)) continue;
    const names = Object.keys({ ...found.dependencies, ...found.optionalDependencies });
    needs.set(
      name,
      names.filter((needed) => lockedOf(needed) !== undefined),
    );
    queue.push(...names);
  }
  return needs;
}

function installedComponent(name: string): Component {
  const { version = "", license, integrity, optional } = lockedOf(name) ?? {};
  const sha512 = /^sha512-(\S+)/.exec(integrity ?? "")?.[1];
  return {
    type: "library",
    "bom-ref": purlOf(name, version),
    name,
    version,
    purl: purlOf(name, version),
    scope: optional === true ? "optional" : "required",
    ...(license === undefined ? {} : { licenses: [{ license: { id: license } }] }),
    ...(sha512 === undefined
      ? {}
      : { hashes: [{ alg: "SHA-512" as const, content: Buffer.from(sha512, "base64").toString("hex") }] }),
    properties: [{ name: "tare:how", value: "installed" }],
  };
}

function bundledComponent({ name, from, license, into, note }: (typeof BUNDLED)[number]): Component {
  const version = from === undefined ? undefined : lockedOf(from)?.version;
  return {
    type: "library",
    "bom-ref": `bundled:${name}`,
    name,
    ...(version === undefined ? {} : { version, purl: purlOf(name, version) }),
    scope: "required",
    licenses: [{ license: { id: license } }],
    properties: [
      { name: "tare:how", value: "bundled" },
      { name: "tare:into", value: into.join(" ") },
      ...(note === undefined ? [] : [{ name: "tare:note", value: note }]),
    ],
  };
}

function bom(): object {
  const needs = installed();
  const names = [...needs.keys()].sort();
  const ref = purlOf(own.name, own.version ?? "");
  const refOf = (name: string): string => purlOf(name, lockedOf(name)?.version ?? "");
  const first = Object.keys({ ...own.dependencies, ...own.optionalDependencies }).filter((name) => needs.has(name));
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      component: {
        type: "library",
        "bom-ref": ref,
        name: own.name,
        version: own.version,
        purl: ref,
        licenses: [{ license: { id: own.license } }],
      },
    },
    components: [...BUNDLED.map(bundledComponent), ...names.map(installedComponent)],
    dependencies: [
      { ref, dependsOn: [...BUNDLED.map(({ name }) => `bundled:${name}`), ...first.map(refOf)] },
      ...names.map((name) => ({ ref: refOf(name), dependsOn: (needs.get(name) ?? []).map(refOf) })),
    ],
  };
}

const text = `${JSON.stringify(bom(), null, 2)}\n`;
writeFileSync(`${root}dist/sbom.cdx.json`, text);
process.stdout.write(text);
