import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeInBrowser, type Visit, type VisitOptions } from "./browser.ts";
import { type Models, makeModels, PASSWORD } from "./models.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** Serious and critical findings on the page as it stands. */
async function seriousFindings({ page }: Visit): Promise<string[]> {
  // Evaluated from outside: the page's policy keeps scripts out of it.
  const violations = await page.evaluate<readonly Violation[]>(
    `${AXE}; axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations)`,
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary ?? ""}`));
}

const SCREENS: readonly VisitOptions[] = [
  { width: 1280, scheme: "light" },
  { width: 1280, scheme: "dark" },
  { width: 390, scheme: "light" },
  { width: 390, scheme: "dark" },
];

describeInBrowser("every page, in both themes and widths", (viewer) => {
  let models: Models;
  beforeAll(async () => {
    models = await makeModels("quantized", "paged", "vault");
  });
  afterAll(() => models.remove());

  it.each(SCREENS)("has no serious axe finding, and nothing sticks out sideways: %o", async (options) => {
    const visit = await viewer().visit(options);
    const { page } = visit;
    const look = async (name: string): Promise<void> => {
      await page.waitForTimeout(150);
      await visit.screenshot(name);
      expect(await seriousFindings(visit), name).toEqual([]);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(overflow, `${name} is wider than the screen`).toBeLessThanOrEqual(0);
    };
    await page.goto(viewer().url);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await look("start");
    await visit.choose(models.path("q4.gguf"));
    await page.locator(".overview").waitFor();
    await look("overview");
    await visit.tab("Tensors");
    await page.getByRole("grid").waitFor();
    await page.getByRole("checkbox").check();
    await look("tensors");
    await page.getByRole("row", { name: /0\.mlp\.up_proj/ }).click();
    await page.getByRole("article").first().waitFor();
    await page.getByText("Deviation").waitFor();
    await look("tensor");
    await visit.tab("Metadata");
    await page.locator(".tree").waitFor();
    await look("metadata");
    await visit.tab("Bytes");
    await page.locator(".fields").waitFor();
    await look("bytes");
    await visit.tab("Compare");
    await page.locator("main input[type=file]").setInputFiles(models.path("demo.gguf"));
    await page.getByRole("grid").waitFor();
    await look("compare");
    await visit.choose(models.path("broken.aero"));
    await visit.tab("Layout");
    await page.getByRole("button", { name: "Verify" }).click();
    await page.locator(".findings").waitFor();
    await look("layout");
    await visit.choose(models.path("v.aerovault"));
    await page.locator("#password").waitFor();
    await look("password");
    await page.locator("#password").fill(PASSWORD);
    await page.keyboard.press("Enter");
    await visit.tab("Files");
    await page.getByRole("row", { name: /notes/ }).click();
    await page.locator(".preview pre").waitFor();
    await look("files");
    visit.calm();
    await visit.close();
  });
});
