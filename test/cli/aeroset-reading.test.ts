import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { type BuiltSet, buildSet, SET_NAME, setTensorBytes } from "../builders/aeroset.ts";
import { callTare, scratch } from "./run-tare.ts";

/** Writes a set to a folder of its own; gives the folder. */
function writeSet(options: BuiltSet = {}, without: readonly string[] = []): string {
  const file = scratch();
  const paths = [...buildSet(options)].filter(([name]) => !without.includes(name)).map(([name, b]) => file(name, b));
  return dirname(paths[0] as string);
}

describe("a set", () => {
  it("opens by its folder and by its JSON", async () => {
    const folder = writeSet({ hashes: ["index"] });
    const [listed, bytes, map] = await Promise.all([
      callTare(["ls", folder, "--json"]),
      callTare(["cat", `${folder}/${SET_NAME}`, "t3"]),
      callTare(["map", folder, "--json"]),
    ]);
    const { tensors } = JSON.parse(listed.out) as { tensors: { name: string; file: string }[] };
    expect(tensors.map(({ name, file }) => [name, file])).toContainEqual(["t3", "part-001.aero"]);
    expect(bytes).toMatchObject({ code: 0, err: "" });
    expect(bytes.stdout.equals(setTensorBytes(3))).toBe(true);
    const { rows } = JSON.parse(map.out) as { rows: { kind: string; part: number; offset: number }[] };
    expect(rows.filter(({ kind }) => kind === "gap")).toEqual([]);
    expect(rows.filter(({ kind }) => kind === "tensor").every(({ part, offset }) => part > 1 && offset > 96)).toBe(
      true,
    );
  });

  it("says what is not verified, and what is missing", async () => {
    const folder = writeSet({ ids: "local" }, ["part-002.aero"]);
    const [plain, lost, report] = await Promise.all([
      callTare(["cat", folder, "t0"]),
      callTare(["cat", folder, "t4"]),
      callTare(["verify", folder, "--json"]),
    ]);
    expect(plain).toMatchObject({ code: 0, err: expect.stringContaining("unverified") });
    expect(lost).toMatchObject({ code: 9, out: "", err: expect.stringContaining("part-002.aero") });
    expect(report.code).toBe(9);
    expect(JSON.parse(report.out)).toMatchObject({ ok: false, findings: [{ code: "source/not-found" }] });
  });

  it("is verified without its weights by --remote, which stands alone", async () => {
    const folder = writeSet();
    const [remote, both] = await Promise.all([
      callTare(["verify", folder, "--remote", "--json"]),
      callTare(["verify", folder, "--remote", "--full"]),
    ]);
    expect(remote.code).toBe(0);
    const report = JSON.parse(remote.out) as { level: string; findings: { code: string }[] };
    expect(report.level).toBe("control");
    expect(report.findings.filter(({ code }) => code === "integrity/not-checked")).toHaveLength(3);
    expect(both).toMatchObject({ code: 2, err: expect.stringContaining("--full and --remote") });
  });
});
