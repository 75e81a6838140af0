import { readFileSync, statSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { callTare, scratch } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

describe("keygen, sign and verify", () => {
  it("sign beside a file of any format, and notice every way in which it is not the one", async () => {
    const file = scratch();
    const model = file("m.gguf", smallGguf());
    const made = await callTare(["keygen", "-o", file("k"), "--json"]);
    expect(made).toMatchObject({ code: 0, err: "" });
    expect(made.out).not.toContain("BEGIN");
    expect(statSync(file("k.key")).mode & 0o777).toBe(0o600);
    expect(await callTare(["keygen", "-o", file("k")])).toMatchObject({ code: 2 });
    await callTare(["keygen", "-o", file("other"), "-q"]);

    const verify = (...flags: string[]) => callTare(["verify", model, ...flags]);
    expect(await verify()).toMatchObject({ code: 0 });
    expect(await verify("--public-key", file("k.pub"))).toMatchObject({ code: 12 });
    expect(await verify("--require-signature")).toMatchObject({ code: 12 });
    expect(await verify("--public-key", file("k.pub"), "--allow-unsigned")).toMatchObject({ code: 0 });

    expect(await callTare(["sign", model, "--key", file("k.key")])).toMatchObject({ code: 0 });
    expect(await callTare(["sign", model, "--key", file("k.key")])).toMatchObject({ code: 0 });
    expect(await verify("--public-key", file("k.pub"))).toMatchObject({ code: 0 });
    expect(await verify("--public-key", file("other.pub"))).toMatchObject({ code: 12 });
    // The other half of the pair is no public key, and says so.
    expect(await verify("--public-key", file("k.key"))).toMatchObject({ code: 2 });

    const bytes = smallGguf();
    bytes[bytes.byteLength - 1] = 0x77;
    writeFileSync(model, bytes);
    const changed = await verify("--public-key", file("k.pub"));
    expect(changed).toMatchObject({ code: 5 });
    expect(changed.out).toMatch(/"m.gguf" was changed after it was signed/);
  });

  it("sign an APR file in its place, or to another", async () => {
    const file = scratch();
    const model = file("m.apr");
    await callTare(["convert", file("m.safetensors", smallSafetensors()), model]);
    await callTare(["keygen", "-o", file("k"), "-q"]);
    const before = readFileSync(model);
    expect(await callTare(["sign", model, "--key", file("k.key"), "-o", file("s.apr")])).toMatchObject({ code: 0 });
    expect(readFileSync(model)).toEqual(before);
    expect(await callTare(["sign", model, "--key", file("k.key")])).toMatchObject({ code: 0 });
    const after = readFileSync(model);
    expect(after).toEqual(readFileSync(file("s.apr")));
    expect(after.byteLength).toBe(before.byteLength + 96);
    expect(await callTare(["verify", model, "--public-key", file("k.pub")])).toMatchObject({ code: 0 });
    const back = file("back.safetensors");
    expect(await callTare(["convert", model, back])).toMatchObject({ code: 0 });
    expect(readFileSync(back)).toEqual(Buffer.from(smallSafetensors()));
  });
});

describe("convert --encrypt", () => {
  it("takes the password from a file, a command or the environment, and gives the same bytes back", async () => {
    const file = scratch();
    const input = file("m.safetensors", smallSafetensors());
    const sealed = file("m.apr");
    await callTare(["keygen", "-o", file("k"), "-q"]);
    const flags = ["--encrypt", "--verify", "--password-file", file("pw", "gehéim\n"), "--sign", file("k.key")];
    const written = await callTare(["convert", input, sealed, ...flags, "--json"]);
    expect(written).toMatchObject({ code: 0 });
    expect(JSON.parse(written.out)).toMatchObject({ byteLength: statSync(sealed).size });
    expect(await callTare(["verify", sealed, "--public-key", file("k.pub")])).toMatchObject({ code: 0 });
    expect(written.out + written.err).not.toContain("gehéim");

    expect(await callTare(["ls", sealed])).toMatchObject({ code: 0 });
    const back = file("back.safetensors");
    expect(await callTare(["convert", sealed, back])).toMatchObject({ code: 11 });
    expect(await callTare(["convert", sealed, back], { env: { TARE_PASSWORD: "geheim" } })).toMatchObject({ code: 11 });
    const command = { TARE_PASSWORD_COMMAND: `cat '${file("pw")}'` };
    expect(await callTare(["convert", sealed, back], { env: command })).toMatchObject({ code: 0 });
    expect(readFileSync(back)).toEqual(Buffer.from(smallSafetensors()));
    expect(await callTare(["verify", sealed], { env: { TARE_PASSWORD_FILE: file("pw") } })).toMatchObject({ code: 0 });

    const bytes = readFileSync(sealed);
    // The last byte of the last tensor: before the signature and the footer.
    bytes[bytes.byteLength - 113] = (bytes[bytes.byteLength - 113] as number) ^ 1;
    writeFileSync(sealed, bytes);
    const damaged = await callTare(["convert", sealed, file("x.safetensors")], { env: { TARE_PASSWORD: "gehéim" } });
    expect(damaged).toMatchObject({ code: 5 });
  });

  it("refuses formats that have no place for it, an empty password, and one in the arguments", async () => {
    const file = scratch();
    const input = file("m.safetensors", smallSafetensors());
    const empty = ["--encrypt", "--password-file", file("pw", "\n")];
    expect(await callTare(["convert", input, file("m.gguf"), "--encrypt"])).toMatchObject({ code: 2 });
    expect(await callTare(["convert", input, file("m.apr"), ...empty])).toMatchObject({ code: 2 });
    expect(await callTare(["convert", input, file("m.apr"), "--encrypt"])).toMatchObject({ code: 11 });
    const typed = await callTare(["convert", input, file("m.apr"), "--encrypt", "--password=geheim"]);
    expect(typed).toMatchObject({ code: 2 });
    expect(typed.err).not.toContain("geheim");
  });
});
