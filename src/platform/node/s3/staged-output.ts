import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Bytes } from "../../../base/bytes.ts";
import { withLabel } from "../../../bytes/s3/open.ts";
import type { Output, Sink } from "../../../bytes/sink.ts";
import { errnoOf, fileError } from "../errors.ts";
import { makeFolder } from "../files/own-folder.ts";
import { fileSink } from "../files/sink.ts";

/**
 * An Output for formats that read a file back before it gets its name, which an upload does not allow: every file is
 * built in a local folder and uploaded at commit. `root` is made if it is missing.
 */
export function stagedOutput(output: Output, root: string): Output {
  return {
    ...output,
    async create(name: string): Promise<Sink> {
      // First, because it refuses an existing object.
      const upload = await output.create(name);
      try {
        await makeFolder(root, 0o700);
        const folder = await mkdtemp(join(root, "upload-"));
        return new StagedSink(upload, await fileSink(join(folder, "staged"), { overwrite: "refuse" }), folder);
      } catch (error) {
        await upload.abort();
        if (errnoOf(error) === undefined) throw error;
        throw fileError(error, `Cannot keep a copy of "${name}" in "${root}"`, { source: root });
      }
    },
  };
}

class StagedSink implements Sink {
  readonly label: string;
  readonly #upload: Sink;
  readonly #file: Sink;
  readonly #folder: string;
  readonly reserve: NonNullable<Sink["reserve"]>;
  readonly fill: NonNullable<Sink["fill"]>;
  readonly reopen: NonNullable<Sink["reopen"]>;

  constructor(upload: Sink, file: Sink, folder: string) {
    this.label = upload.label;
    this.#upload = upload;
    this.#file = file;
    this.#folder = folder;
    const { reserve, fill, reopen } = file as Required<Sink>;
    this.reserve = (byteLength) => reserve.call(file, byteLength);
    this.fill = (offset, bytes) => fill.call(file, offset, bytes);
    this.reopen = async () => withLabel(await reopen.call(file), upload.label);
  }

  get position(): number {
    return this.#file.position;
  }

  append(bytes: Bytes): Promise<void> {
    return this.#file.append(bytes);
  }

  async commit(): Promise<void> {
    try {
      const staged = await this.reopen();
      try {
        for await (const piece of staged.stream(0)) await this.#upload.append(piece);
      } finally {
        await staged.close();
      }
      await this.#upload.commit();
    } catch (error) {
      await this.#upload.abort();
      throw error;
    } finally {
      await this.#clear();
    }
  }

  async abort(): Promise<void> {
    await this.#upload.abort();
    await this.#clear();
  }

  async #clear(): Promise<void> {
    await this.#file.abort();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
