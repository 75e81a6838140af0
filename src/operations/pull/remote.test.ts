import { expect, it } from "vitest";
import { mirrorFolder, mirrorUrl } from "./remote.ts";

it("mirrorFolder() accepts a folder, with or without its slash, or the file itself", () => {
  const url = "https://a.example/x/model.aeroset.json?sig=1";
  for (const mirror of ["https://b.example/y", "https://b.example/y/", "https://b.example/y/model.aeroset.json"]) {
    expect(mirrorFolder(mirror, url)).toBe("https://b.example/y/");
  }
  expect(mirrorUrl("https://b.example/y/?k=1", "sub/part 0.aero")).toBe("https://b.example/y/sub/part%200.aero?k=1");
});
