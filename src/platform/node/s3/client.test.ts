import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { readS3Settings } from "./client.ts";

/** A home directory with these files in its .aws folder. */
function home(files: Readonly<Record<string, string>> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "tare-aws-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, ".aws"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, ".aws", name), text);
  return folder;
}

const KEY = { AWS_ACCESS_KEY_ID: "ID", AWS_SECRET_ACCESS_KEY: "SECRET" };

describe("readS3Settings()", () => {
  test("is anonymous at Amazon by default", async () => {
    expect(await readS3Settings({ HOME: home() })).toEqual({
      endpoint: { region: "us-east-1", addressing: "virtual-host" },
      credentials: undefined,
    });
  });
  test("takes the variables, the more specific endpoint first", async () => {
    const settings = await readS3Settings({
      HOME: home(),
      ...KEY,
      AWS_SESSION_TOKEN: "TOKEN",
      AWS_DEFAULT_REGION: "eu-west-1",
      AWS_REGION: "eu-west-2",
      AWS_ENDPOINT_URL: "http://other.example",
      AWS_ENDPOINT_URL_S3: "http://127.0.0.1:9000",
    });
    expect(settings).toEqual({
      endpoint: { region: "eu-west-2", url: "http://127.0.0.1:9000/", addressing: "path" },
      credentials: { accessKeyId: "ID", secretAccessKey: "SECRET", sessionToken: "TOKEN" },
    });
  });
  test("takes a profile, with its own store", async () => {
    const HOME = home({
      credentials:
        "[default]\naws_access_key_id = D\naws_secret_access_key=DS\n\n[lab]\naws_access_key_id = L ; mine\naws_secret_access_key = LS=/+\n",
      config:
        "# comment\n[default]\nregion = us-west-2\n[profile lab]\nregion=eu-north-1\nservices = lab-services\ns3 =\n  addressing_style = virtual\n[services lab-services]\ns3 =\n  endpoint_url = https://store.example\n",
    });
    expect(await readS3Settings({ HOME })).toMatchObject({
      endpoint: { region: "us-west-2" },
      credentials: { accessKeyId: "D", secretAccessKey: "DS" },
    });
    expect(await readS3Settings({ HOME, AWS_PROFILE: "lab" })).toEqual({
      endpoint: { region: "eu-north-1", url: "https://store.example/", addressing: "virtual-host" },
      credentials: { accessKeyId: "L", secretAccessKey: "LS=/+", sessionToken: undefined },
    });
  });
  test("lets the variables win over a profile", async () => {
    const HOME = home({ credentials: "[default]\naws_access_key_id = D\naws_secret_access_key=DS\n" });
    expect(await readS3Settings({ HOME, ...KEY })).toMatchObject({ credentials: { accessKeyId: "ID" } });
  });
  test.each([
    ["half a key", { AWS_ACCESS_KEY_ID: "ID" }, "AWS_SECRET_ACCESS_KEY is missing"],
    ["a profile that is not there", { AWS_PROFILE: "nobody" }, '"nobody"'],
    ["an endpoint that is no URL", { AWS_ENDPOINT_URL_S3: "127.0.0.1:9000" }, "AWS_ENDPOINT_URL_S3"],
    ["an endpoint with a password", { AWS_ENDPOINT_URL_S3: "http://u:hush@host" }, "without a user"],
    ["a region that is none", { AWS_REGION: "eu west" }, "region"],
  ])("refuses %s", async (_, environment, said) => {
    const error = await readS3Settings({ HOME: home(), ...environment }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "usage/s3.settings", message: expect.stringContaining(said) });
    expect((error as Error).message).not.toContain("hush");
  });
  test("says what to do if a profile gets its key from a program", async () => {
    const HOME = home({ config: "[profile work]\ncredential_process = /bin/keys\n" });
    await expect(readS3Settings({ HOME, AWS_PROFILE: "work" })).rejects.toMatchObject({
      code: "usage/s3.settings",
      hint: expect.stringContaining("export-credentials"),
    });
  });
});
