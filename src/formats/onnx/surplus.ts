import { printable } from "../../base/text.ts";
import type { Loss } from "../../model/finding.ts";
import { type MetadataEntry, type MetadataValue, stringValue } from "../../model/metadata.ts";

/** Above this many, only their number is reported: a file may have a hundred million fields. */
const MAX_LISTED = 100;

/** Fields of a file that have no place in a model of weights. A conversion reports them. */
export class Surplus {
  /** Count of each field that is not in the schema, by message and field number. */
  readonly #fields = new Map<string, number>();
  #moreFields = 0;
  readonly #repeated: Loss[] = [];
  #moreRepeated = 0;

  /** A field that is not in onnx.proto, or something else that we do not know. */
  unknown(name: string): void {
    const count = this.#fields.get(name);
    if (count === undefined && this.#fields.size >= MAX_LISTED) this.#moreFields++;
    else this.#fields.set(name, (count ?? 0) + 1);
  }

  /** A value that another value of the same key replaces. */
  repeated(name: string, reason: string): void {
    if (this.#repeated.length < MAX_LISTED) this.#repeated.push({ name: printable(name), reason });
    else this.#moreRepeated++;
  }

  /** Protobuf uses the last of two values of one field. Gives that one, and reports the one before if it differs. */
  last<T extends string | number>(name: string, before: T, now: T): T {
    if (before !== now && before !== "" && before !== 0) {
      this.repeated(
        name,
        `it is there twice; the last value is used, and ${printable(String(before)).slice(0, 60)} is not`,
      );
    }
    return now;
  }

  losses(): Loss[] {
    const fields = [...this.#fields].map(([name, count]): Loss => {
      return { name, reason: count === 1 ? "it is not known here" : `it is not known here, and comes ${count} times` };
    });
    return [...this.#repeated, ...more(this.#moreRepeated, "values"), ...fields, ...more(this.#moreFields, "fields")];
  }
}

function more(count: number, what: string): Loss[] {
  return count === 0 ? [] : [{ name: `${count} more ${what}`, reason: "as the ones before" }];
}

/** The words that a message has about itself. */
export interface Words {
  /** Empty if there is none. */
  readonly docString: string;
  /** metadata_props. */
  readonly props: ReadonlyMap<string, string>;
}

/** The metadata key for the words of tensors: a map from a tensor's name to its words. */
export const TENSORS_KEY = "onnx.tensors";

export function tensorWordsEntry(words: ReadonlyMap<string, Words>): MetadataEntry {
  const entries = [...words].map(([key, { docString, props }]): MetadataEntry => {
    const own: MetadataEntry[] = docString === "" ? [] : [textEntry("doc_string", docString)];
    if (props.size > 0) own.push({ key: "metadata_props", value: textMap(props) });
    return { key, value: { type: "map", entries: own } };
  });
  return { key: TENSORS_KEY, value: { type: "map", entries } };
}

export function textMap(texts: ReadonlyMap<string, string>): MetadataValue {
  return { type: "map", entries: [...texts].map(([key, text]) => textEntry(key, text)) };
}

export function textEntry(key: string, text: string): MetadataEntry {
  return { key, value: stringValue(text) };
}
