import { bindImage, type EncoderThread } from "../embedding/encoder/encoder-thread.ts";
import type { JobRequest, JobResult } from "./protocol.ts";

/** Encoders that a worker keeps; one that was not used for long makes room. */
const MOST_ENCODERS = 2;

/** A worker's own, because jobs have no other way to leave something for the next one. Oldest use first. */
const encoders = new Map<string, Promise<EncoderThread>>();

/** Computes one group; undefined where the encoder is not here and did not come with the request. */
export async function embedGroup(request: JobRequest<"embed-group">): Promise<JobResult<"embed-group">> {
  const { encoder, image, group } = request;
  const thread = encoders.get(encoder) ?? (image === undefined ? undefined : bindImage(image));
  if (thread === undefined) return undefined;
  encoders.delete(encoder);
  encoders.set(encoder, thread);
  for (const oldest of encoders.keys()) if (encoders.size > MOST_ENCODERS) encoders.delete(oldest);
  try {
    return (await thread).run(group);
  } catch (error) {
    encoders.delete(encoder);
    throw error;
  }
}
