import { bindImage, ImageThreads } from "../embedding/encoder/image.ts";
import type { JobRequest, JobResult } from "./protocol.ts";

/** Encoders that a worker keeps; one that was not used for long makes room. */
const MOST_ENCODERS = 2;

/** A worker's own, because jobs have no other way to leave something for the next one. Oldest use first. */
const encoders = new Map<string, Promise<ImageThreads>>();

/** Computes one group; undefined where the encoder is not here and did not come with the request. */
export async function embedGroup(request: JobRequest<"embed-group">): Promise<JobResult<"embed-group">> {
  const { encoder, image, slot, group } = request;
  const bound = encoders.get(encoder) ?? (image === undefined ? undefined : bindImage(image).then(threadsOf(image)));
  if (bound === undefined) return undefined;
  encoders.delete(encoder);
  encoders.set(encoder, bound);
  for (const oldest of encoders.keys()) if (encoders.size > MOST_ENCODERS) encoders.delete(oldest);
  return (await bound).run(slot, group);
}

function threadsOf({ shape }: NonNullable<JobRequest<"embed-group">["image"]>) {
  return (bound: Awaited<ReturnType<typeof bindImage>>): ImageThreads => new ImageThreads(shape, bound);
}
