import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { callTare } from "../cli/run-tare.ts";
import { describeInBrowser, type Visit } from "./browser.ts";
import { type Models, makeModels, PASSWORD } from "./models.ts";

describeInBrowser("vaults in the viewer", (viewer) => {
  let models: Models;
  beforeAll(async () => {
    models = await makeModels("vault");
  });
  afterAll(() => models.remove());

  async function unlock(visit: Visit): Promise<void> {
    await visit.choose(models.path("v.aerovault"));
    await visit.page.locator("#password").fill(PASSWORD);
    await visit.page.getByRole("button", { name: "Unlock" }).click();
    await visit.page.locator(".overview").waitFor();
  }

  it("a wrong password is asked for again, the right one opens, and neither is left in the page", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await visit.choose(models.path("v.aerovault"));
    await page.locator("#password").fill("not the right one");
    await page.keyboard.press("Enter");
    await page.getByText("That password does not open it.").waitFor();
    expect(await page.locator("#password").inputValue()).toBe("");
    await page.locator("#password").fill(PASSWORD);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "v.aerovault" }).waitFor();
    expect(await page.locator("main").innerText()).toMatch(/5\.6\d MB of files take 2\.5\d MB in \d+ chunks; .* save/);
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href]));
    expect(kept).not.toContain(PASSWORD);
    visit.calm();
    await visit.close();
  });

  it("whoever gives no password is back at the start", async () => {
    const visit = await viewer().visit();
    await visit.choose(models.path("v.aerovault"));
    await visit.page.getByRole("button", { name: "Cancel" }).click();
    await visit.page.getByRole("heading", { name: "What is in this file?" }).waitFor();
    visit.calm();
    await visit.close();
  });

  it("files are a tree; texts and pictures are shown, any file is downloaded", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await unlock(visit);
    await visit.tab("Files");
    const shared = page.getByRole("row", { name: /copy\.gguf/ });
    expect(await shared.innerText()).toMatch(/2\.83 MB[\s\S]*shared/);
    await shared.click();
    await page.getByText(/Takes 0 B of its own; 2\.\d+ MB are stored once for it and other files/).waitFor();
    await page.getByRole("row", { name: /notes\.md/ }).click();
    await expect.poll(() => page.locator(".preview").innerText()).toContain("Weights and what they weigh.");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download" }).click(),
    ]);
    expect(readFileSync(await download.path(), "utf8")).toContain("# Notes");
    await page.getByRole("row", { name: /dot\.png/ }).click();
    const image = page.getByRole("img", { name: "docs/dot.png" });
    await image.waitFor();
    expect(await image.evaluate((element) => (element as HTMLImageElement).naturalWidth)).toBe(1);
    await page.getByRole("row", { name: /docs\// }).click();
    expect(await page.getByRole("row", { name: /dot\.png/ }).count()).toBe(0);
    visit.calm();
    await visit.screenshot("files");
    await visit.close();
  });

  it("a model inside opens in place, and the way back is in the bar", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await unlock(visit);
    await visit.tab("Files");
    await page.getByRole("row", { name: /^ ?model\.gguf/ }).click();
    await page.getByRole("button", { name: "Open in place" }).click();
    await page.getByRole("heading", { name: "tare demo" }).waitFor();
    await visit.tab("Tensors");
    await page.getByRole("row", { name: /lm_head/ }).click();
    await expect.poll(() => page.locator("main").innerText()).toContain("Deviation");
    await page.getByRole("button", { name: "v.aerovault" }).click();
    await page.getByRole("row", { name: /copy\.gguf/ }).waitFor();
    visit.calm();
    await visit.close();
  });

  it("an encrypted model asks when its first value is read, once for everything on the page", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    const sealed = models.path("sealed.apr");
    const secret = ["--password-file", models.path("password")];
    expect((await callTare(["convert", models.path("demo.safetensors"), sealed, "--encrypt", ...secret])).code).toBe(0);
    await visit.choose(sealed);
    await visit.tab("Tensors");
    await page.getByRole("row", { name: /lm_head/ }).click();
    await page.locator("#password").fill(PASSWORD);
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator("main").innerText()).toMatch(/Deviation[\s\S]*drawn from/);
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await page.locator(".values td").count()).toBeGreaterThan(20);
    visit.calm();
    await visit.close();
  });

  it("a scrub paints the blocks, and a damaged one is named with its files", async () => {
    const visit = await viewer().visit();
    const { page } = visit;
    await unlock(visit);
    await visit.tab("Layout");
    await page.getByRole("button", { name: "Scrub" }).click();
    await page.getByText("Whole: everything agrees").waitFor();
    const bytes = readFileSync(models.path("v.aerovault"));
    bytes[200_000] = (bytes[200_000] ?? 0) ^ 1;
    await page.goto(viewer().url);
    await page
      .locator("input[type=file]")
      .first()
      .setInputFiles({ name: "torn.aerovault", mimeType: "", buffer: bytes });
    await page.locator("#password").fill(PASSWORD);
    await page.keyboard.press("Enter");
    await visit.tab("Layout");
    await page.getByRole("button", { name: "Scrub" }).click();
    await page.getByText("Damaged: one fault.").waitFor();
    expect(await page.locator(".findings").innerText()).toMatch(/gguf[\s\S]*integrity\/aerovault\.cipher-hash/);
    visit.calm();
    await visit.close();
  });
});
