import { expect, it } from "vitest";
import { KEY } from "../support/s3-server.ts";
import { seed, startTestStore } from "../support/s3-tools.ts";
import { aeroFile, folder, holds, noise, pullInto } from "./pull-into.ts";

it("pull() brings an object of a store that checks signatures", async () => {
  const { server } = await startTestStore();
  const file = aeroFile(noise(5 << 20), 1 << 20);
  seed(server, "folder/m.aero", file);
  const environment = {
    AWS_ENDPOINT_URL_S3: server.endpoint,
    AWS_REGION: "us-east-1",
    AWS_ACCESS_KEY_ID: KEY.accessKeyId,
    AWS_SECRET_ACCESS_KEY: KEY.secretAccessKey,
  };
  const to = folder();
  const { files } = await pullInto(to, { url: "s3://models/folder/m.aero" }, environment);
  expect(files[0]?.verified).toBe("pages");
  expect(holds(to, "m.aero", file)).toBe(true);
  const missing = pullInto(folder(), { url: "s3://models/folder/none.aero" }, environment);
  await expect(missing).rejects.toMatchObject({ code: "source/not-found" });
});
