import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import Module from "node:module";
import { basename, dirname, join } from "node:path";
import { Script } from "node:vm";
import * as zlib from "node:zlib";

/**
 * Keeps what V8 made of the bundled command line for the next time it starts: compiling takes 20 ms of the 95 that
 * `verify --quick` takes. Newer versions of Node do it themselves; for Node 20 it is done here.
 */

/** Only the main thread writes: a worker is ended before it could. */
export type CodeUse = "read" | "keep";

/** The content of a file is not looked at: names of bundled files change with their content. */
const HASHED_NAME = /-[\w-]{8}\.js$/;
/** Code that nobody has renewed for so long is of a version that is gone. */
const STALE_MS = 30 * 86_400_000;

/** What Node has beyond its types. */
interface ModuleInternals {
  readonly enableCompileCache?: (folder: string) => unknown;
  readonly wrap: (content: string) => string;
  readonly prototype: { _compile(this: NodeModule, content: string, path: string): unknown };
}

type Wrapped = (...args: readonly unknown[]) => unknown;

export function keepCompiledCode(folder: string, use: CodeUse): void {
  const internals = Module as unknown as ModuleInternals;
  if (internals.enableCompileCache !== undefined) internals.enableCompileCache(folder);
  // Older ones have no CRC-32, and compile.
  else if (typeof zlib.crc32 === "function") new CodeStore(folder, use).install(internals);
}

class CodeStore {
  readonly #folder: string;
  readonly #use: CodeUse;
  readonly #fresh = new Map<string, Script>();

  constructor(folder: string, use: CodeUse) {
    this.#folder = join(folder, `${process.versions.v8}-${process.arch}`);
    this.#use = use;
  }

  install(internals: ModuleInternals): void {
    const store = this;
    const { wrap, prototype } = internals;
    const compile = prototype._compile;
    const ours = dirname(__filename);
    const prefix = wrap("").indexOf("{") + 2;
    prototype._compile = function (content, path) {
      // A script of this kind may not import modules.
      const isOurs = dirname(path) === ours && HASHED_NAME.test(path) && !content.includes("import(");
      if (!isOurs) return compile.call(this, content, path);
      const name = basename(path);
      const cachedData = store.#read(name);
      const script = new Script(wrap(content), { filename: path, columnOffset: -prefix, cachedData });
      if (cachedData === undefined || script.cachedDataRejected === true) store.#fresh.set(name, script);
      const run = script.runInThisContext() as Wrapped;
      return run.call(this.exports, this.exports, this.require.bind(this), this, path, ours);
    };
    if (this.#use === "keep") process.on("exit", () => this.#writeFresh());
  }

  /** Undefined where there is none, or one that is damaged: V8 would run it all the same. */
  #read(name: string): Buffer | undefined {
    try {
      const file = readFileSync(join(this.#folder, `${name}.bin`));
      const code = file.subarray(4);
      return zlib.crc32(code) === file.readUInt32LE(0) ? code : undefined;
    } catch {
      return undefined;
    }
  }

  /** Whatever goes wrong, nothing is lost but time. */
  #writeFresh(): void {
    if (this.#fresh.size === 0) return;
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      if (statSync(this.#folder).uid !== process.getuid?.()) return;
      for (const [name, script] of this.#fresh) this.#write(join(this.#folder, `${name}.bin`), script);
      this.#removeStale();
    } catch {
      // no room, no right, no folder
    }
  }

  #write(path: string, script: Script): void {
    const code = script.createCachedData();
    const file = Buffer.concat([Buffer.alloc(4), code]);
    file.writeUInt32LE(zlib.crc32(code), 0);
    const temporary = `${path}.${process.pid}.tmp`;
    writeFileSync(temporary, file, { flag: "wx", mode: 0o600 });
    renameSync(temporary, path);
  }

  #removeStale(): void {
    for (const name of readdirSync(this.#folder)) {
      const path = join(this.#folder, name);
      if (Date.now() - statSync(path).mtimeMs > STALE_MS) rmSync(path, { force: true });
    }
  }
}
