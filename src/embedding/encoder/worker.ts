import { bindImage, type EncoderImage, type EncoderThread, type SentenceGroup } from "./encoder-thread.ts";

/** Sentences for the encoder that a worker keeps under a name, or gets with this request. */
export interface GroupRequest {
  readonly encoder: string;
  readonly image?: EncoderImage | undefined;
  readonly group: SentenceGroup;
}

/** Undefined if the worker does not have that encoder: send the request again with its image. */
export type GroupResult = Float32Array<ArrayBuffer> | undefined;

/** How many encoders a worker keeps. The one that was not used for longest makes room. */
const MOST_ENCODERS = 2;

/** Belongs to the worker, because jobs have no other way to keep something for the next one. Oldest use first. */
const encoders = new Map<string, Promise<EncoderThread>>();

/** Computes one group; undefined if the worker lacks the encoder and it did not come with the request. */
export async function embedGroup(request: GroupRequest): Promise<GroupResult> {
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
