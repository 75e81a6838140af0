import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { callTare, scratch } from "./run-tare.ts";
import { smallGguf } from "./small-models.ts";

describe("a file that is not there", () => {
  it.each(
    [
      "inspect modle.gguf",
      "ls modle.gguf::x",
      "convert modle.gguf out.aero",
      "diff model.gguf modle.gguf",
      "stamp modle.gguf --set a=b",
      "correct gen modle.gguf",
      "push modle.gguf s3://models/m",
      "vault ls modle.gguf",
      "vault rm modle.gguf x",
      "vault repair modle.gguf",
      "vault create new --password-file modle.gguf",
      "sign model.gguf --key modle.gguf",
      "convert model.gguf out.aero --metadata modle.gguf",
      "inspect model.gguf --limits modle.gguf",
      "embed model.gguf --file modle.gguf",
      "inspect fodler/model.gguf",
      "serve fodler",
    ].map((line) => [line]),
  )("has near names: tare %s", async (line) => {
    const file = scratch();
    const folder = dirname(file("model.gguf", smallGguf()));
    mkdirSync(file("folder"));
    file("folder/model.gguf", smallGguf());
    const { code, err } = await callTare(line.split(" "), { cwd: folder });
    expect({ code, err }).toMatchObject({ code: 9, err: expect.stringContaining("[source/not-found]") });
    const meant = line.includes("fodler/") ? "folder/model.gguf" : line.includes("fodler") ? "folder" : "model.gguf";
    expect(err).toContain(`hint  Did you mean "${meant}"?`);
  });

  it.each(["v.aerovault/models/a.gguf", "v.aerovault:models/a.gguf"])(
    "is the place in a vault that was named as if it were a folder: %s",
    async (typed) => {
      const file = scratch();
      const folder = dirname(file("v.aerovault", smallGguf()));
      const { code, err } = await callTare(["inspect", typed], { cwd: folder });
      expect(code).toBe(9);
      expect(err).toContain('hint  Did you mean "v.aerovault::models/a.gguf"?');
    },
  );

  it("is told as part of the document", async () => {
    const file = scratch();
    file("model.gguf", smallGguf());
    const { out } = await callTare(["inspect", file("modle.gguf"), "--json"]);
    expect(JSON.parse(out).error ?? JSON.parse(out)).toMatchObject({
      hint: `Did you mean "${file("model.gguf")}"?`,
    });
  });
});
