import { expect, it } from "vitest";
import { openSidecarFile } from "./sidecar-file.ts";

it.skipIf(process.platform === "win32")(
  "a device ends at a limit where it was named, and is not read otherwise",
  async () => {
    await expect(openSidecarFile("/dev/zero", "named")).rejects.toMatchObject({ code: "limit/spool" });
    await expect(openSidecarFile("/dev/zero", "beside")).rejects.toMatchObject({ code: "source/io" });
  },
);
