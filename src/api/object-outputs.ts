import { openS3, S3Client, s3Output, s3Resolver } from "../bytes/s3/open.ts";
import { existsError } from "../bytes/sink.ts";
import { objectAddress, storeSettings } from "./objects.ts";
import type { Destination, OutputRequest } from "./outputs.ts";

/** An object as the place of a result; other objects of a set are put beside it. */
export function objectDestination(text: string, request: OutputRequest): Destination {
  const { force, concurrency, signal, onNote } = request;
  const overwrite = force === true ? "replace" : "refuse";
  const isFolder = text.endsWith("/");
  const folder = isFolder ? text : text.slice(0, text.lastIndexOf("/") + 1);
  if (!isFolder) objectAddress(text);
  let made: S3Client | undefined;
  const client = (): S3Client => {
    made ??= new S3Client(storeSettings(request));
    return made;
  };
  return {
    label: text,
    fileName: isFolder ? undefined : text.slice(folder.length),
    holds: "files",
    open: async (name) => s3Output(client(), objectAddress(`${folder}${name}`), { overwrite, concurrency, onNote }),
    pathOf: (name) => `${folder}${name}`,
    async checkAbsent(names) {
      if (overwrite === "replace") return;
      for (const name of names) {
        const address = objectAddress(`${folder}${name}`);
        if ((await client().head(address, { signal })) === undefined) continue;
        throw existsError(address.label);
      }
    },
    async written(name) {
      return s3Resolver(objectAddress(`${folder}${name}`), (address) => openS3(client(), address, { signal }));
    },
  };
}
