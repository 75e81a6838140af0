import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { findChromium, NO_CHROMIUM, type StaticServer, startStatic } from "./chromium.ts";

/** Looked at by people, never compared. */
const OUTPUT = new URL("../../test-output/viewer", import.meta.url).pathname;

export interface VisitOptions {
  readonly width?: number;
  readonly scheme?: "light" | "dark";
}

/** What a scenario works with. */
export interface Viewer {
  /** The viewer on a plain static server: no policy, no listing, nothing but files. */
  readonly url: string;
  /** Names of the viewer's files that were asked for since the last look. */
  takeServed(): readonly string[];
  /** A fresh page; whatever its console calls an error fails the test by `calm`. */
  visit(options?: VisitOptions): Promise<Visit>;
}

export interface Visit {
  readonly page: Page;
  /** Opens files of this computer through the page's own chooser. */
  choose(...paths: readonly string[]): Promise<void>;
  tab(name: string): Promise<void>;
  screenshot(name: string): Promise<void>;
  /** Fails where the console had an error or an exception went uncaught. */
  calm(): void;
  close(): Promise<void>;
}

/** Scenarios in a real browser; without one they are skipped, and the name of the suite says what to install. */
export function describeInBrowser(name: string, scenarios: (viewer: () => Viewer) => void): void {
  const executablePath = findChromium();
  if (executablePath === undefined) {
    describe.skip(`${name} (${NO_CHROMIUM})`, () => scenarios(() => undefined as never));
    return;
  }
  describe(name, () => {
    let browser: Browser | undefined;
    let server: StaticServer | undefined;
    beforeAll(async () => {
      server = await startStatic();
      browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    });
    afterAll(async () => {
      await browser?.close();
      server?.close();
    });
    scenarios(() => ({
      url: server?.url ?? "",
      takeServed: () => server?.served.splice(0) ?? [],
      visit: (options) => startVisit(browser as Browser, server?.url ?? "", options),
    }));
  });
}

async function startVisit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visit> {
  const { width = 1280, scheme = "light" } = options;
  const viewport = { width, height: width < 500 ? 844 : 800 };
  const page = await browser.newPage({ viewport, colorScheme: scheme });
  page.setDefaultTimeout(120_000); // against a page that hangs, however busy the machine is
  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  return {
    page,
    async choose(...paths) {
      await page.goto(url);
      await page
        .locator("input[type=file]")
        .first()
        .setInputFiles([...paths]);
    },
    tab: (name) => page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }).click(),
    async screenshot(name) {
      mkdirSync(OUTPUT, { recursive: true });
      await page.screenshot({ path: join(OUTPUT, `${name}-${scheme}-${width}.png`), fullPage: true });
    },
    calm: () => expect(problems).toEqual([]),
    close: () => page.close(),
  };
}
