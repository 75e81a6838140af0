import { PARITY_LEVELS } from "../src/model/parity/avec.ts";
import { badValue } from "./quantities.ts";

/** How much parity, on every command that makes some. */
export const PARITY_FLAG = { kind: "text", value: "15%|LEVEL" } as const;

/** "15%", "15" or the name of a level → percent. */
export function parseParity(text: string): number {
  const named = new Map<string, number>(Object.entries(PARITY_LEVELS)).get(text);
  if (named !== undefined) return named;
  const percent = /^\d{1,2}%?$/.test(text) ? Number.parseInt(text, 10) : 0;
  if (percent >= 5 && percent <= 50) return percent;
  throw badValue("--parity", text, "5% to 50%, low, medium, quartile or high");
}
