import { describe, expect, it } from "vitest";
import { IsoTimes } from "./iso-time.ts";

describe("IsoTimes", () => {
  it("says what Date.parse says, whatever came before", () => {
    const texts = [
      "2026-11-16T18:44:16.123Z",
      "2026-11-16T18:44:59.999Z",
      "2026-11-16T18:44:00.000Z",
      "2026-11-16T18:45:00.000Z",
      "2026-11-16T18:44:60.000Z",
      "2026-11-16T18:44:16.1234Z",
      "2026-11-16T18:44:16.344830031Z",
      "2026-11-16T18:44:04.350999999Z",
      "2026-11-16T18:44:16.12Z",
      "2026-11-16T18:44:16.12xZ",
      "2026-11-16T18:44:16.123456/89Z",
      "2026-11-16T18:44:1/.123Z",
      "2026-11-16T18:44:/1.123Z",
      "2026-11-16T18:44:16Z",
      "2026-11-16T18:44:16.123+02:00",
      "2026-13-16T18:44:16.123Z",
      "2026-13-16T18:44:17.123Z",
      "1969-12-31T23:59:58.001Z",
      "1969-12-31T23:59:59.999Z",
      "2026-11-16T18:44:16.123Zjunk",
      "yesterday",
      "",
    ];
    const times = new IsoTimes();
    for (const text of [...texts, ...texts.reverse()]) expect(times.parse(text), text).toEqual(Date.parse(text));
  });
});
