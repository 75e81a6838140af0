import { mkdtempSync, readlinkSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { basename, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  adoptPermissions,
  createPartial,
  type Owner,
  partialPrefix,
  placeMark,
  placeMarkOf,
  removePartial,
  writerSuffix,
} from "./partial-files.ts";
import { isLeftBehind } from "./stale-files.ts";

interface Calls {
  readonly granted: number;
  readonly owners: readonly string[];
  readonly mode: number | undefined;
}

const own = process.geteuid?.() ?? 0;
const us = { uid: own, gid: process.getegid?.() ?? 0 };

/** What becomes of a new file; `allow` are the changes of owner that the system permits, `made` is the owner that it gave. */
async function adopt(
  mode: number,
  owner: Owner | undefined,
  allow: (uid: number) => boolean,
  made: Owner = us,
): Promise<Calls> {
  const owners: string[] = [];
  let given: number | undefined;
  const granted = await adoptPermissions(
    {
      path: import.meta.filename,
      handle: {
        stat: async () => made,
        chown: async (uid, gid) => {
          if (!allow(uid)) throw Object.assign(new Error("not yours"), { code: "EPERM" });
          owners.push(`${uid}:${gid}`);
        },
        chmod: async (bits) => {
          given = Number(bits);
        },
      },
    },
    mode,
    owner,
  );
  return { granted, owners, mode: given };
}

const OTHER = { uid: 71_234, gid: 71_235 };
test.runIf(process.geteuid !== undefined)("a file keeps owner and bits where we may say so", async () => {
  const done = await adopt(0o660, OTHER, () => true);
  expect(done).toEqual({ granted: 0o660, owners: ["71234:71235"], mode: 0o660 });
});

test.runIf(process.geteuid !== undefined)("it keeps the group where the owner cannot be kept", async () => {
  const done = await adopt(0o660, OTHER, (uid) => uid === own);
  expect(done).toEqual({ granted: 0o660, owners: [`${own}:71235`], mode: 0o660 });
});

test.runIf(process.geteuid !== undefined).each([
  [0o660, 0o600],
  [0o640, 0o600],
  [0o664, 0o644],
  [0o644, 0o644],
  [0o600, 0o600],
])(
  "where not even the group can be kept, another one gets what everybody has: %o becomes %o",
  async (mode, granted) => {
    expect(await adopt(mode, OTHER, () => false)).toEqual({ granted, owners: [], mode: granted });
  },
);

test("nothing is given away where no owner is named, or it is us", async () => {
  expect(await adopt(0o640, undefined, () => true)).toMatchObject({ granted: 0o640, owners: [] });
  expect(await adopt(0o640, us, () => true)).toMatchObject({ granted: 0o640, owners: [] });
});

test.runIf(process.geteuid !== undefined)(
  "a folder that gives files its own group does not let that group in",
  async () => {
    const inherited = { uid: own, gid: us.gid + 1 };
    expect(await adopt(0o640, us, () => true, inherited)).toMatchObject({
      owners: [`${own}:${us.gid}`],
      granted: 0o640,
    });
    expect(await adopt(0o640, us, () => false, inherited)).toMatchObject({ owners: [], granted: 0o600 });
  },
);

/** Above what Linux gives out. */
const DEAD_PID = 4_194_305;

test("places differ by machine and by process namespace", () => {
  const marks = [
    placeMarkOf("one", "pid:[4026531836]"),
    placeMarkOf("two", "pid:[4026531836]"),
    placeMarkOf("one", "pid:[4026532999]"),
  ];
  expect(new Set(marks).size).toBe(3);
  for (const mark of marks) expect(mark).toMatch(/^[0-9a-f]{6}$/);
});

test.runIf(process.platform === "linux")("our place is that of our machine and namespace", () => {
  expect(placeMark()).toBe(placeMarkOf(hostname(), readlinkSync("/proc/self/ns/pid")));
});

test("the name of a work file tells when its writer has ended, if that was one of ours", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tare-partial-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const { path, handle } = await createPartial({ path: join(folder, "m.aero") });
  await handle.close();
  const made = basename(path).slice(partialPrefix("m.aero").length);
  await removePartial(path);
  for (const suffix of [made, writerSuffix()]) {
    expect(isLeftBehind(suffix)).toBe(false);
    const dead = suffix.replace(/^\d+/, `${DEAD_PID}`);
    expect(isLeftBehind(dead)).toBe(true);
    const elsewhere = placeMarkOf("elsewhere", "");
    expect(isLeftBehind(dead.replace(placeMark(), elsewhere))).toBe(false);
  }
  expect(writerSuffix()).not.toBe(writerSuffix());
});
