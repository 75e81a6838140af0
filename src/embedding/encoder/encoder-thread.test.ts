import { expect, test } from "vitest";
import { tinyBert } from "../../../test/builders/tiny-bert.ts";
import { createEncoder } from "./encoder.ts";
import { bindImage, type EncoderImage, type GroupRunner } from "./encoder-thread.ts";

test("bindImage() gives each thread its own slot, or a copy of the weights if no slot is free", async () => {
  let image: EncoderImage | undefined;
  const groups: Parameters<GroupRunner["run"]>[0]["group"][] = [];
  const runner: GroupRunner = {
    lanes: 2,
    async run(request) {
      image = request.image;
      groups.push(request.group);
      return undefined;
    },
    close: async () => {},
  };
  const encoder = await createEncoder(tinyBert(), { kernel: "simd", runner });
  await encoder.embed(Array.from({ length: 30 }, (_, i) => new Int32Array(40).fill(i)));
  if (image?.storage.kind !== "shared") throw new Error("memory is not shared");
  const threads = await Promise.all([1, 2, 3, 4].map(() => bindImage(image as EncoderImage)));
  // Each thread works in its own slot or copy, so all give the same result.
  const [group] = groups;
  if (group === undefined) throw new Error("nothing was spread");
  const results = threads.map((thread) => thread.run(group));
  for (const result of results) expect(result).toEqual(results[0]);
  const owners = new Int32Array(image.storage.memory.buffer, 64, 3);
  expect([...owners]).toEqual([0, 1, 1]);
});
