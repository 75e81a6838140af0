/** Sections of the files that the AWS tools keep in ~/.aws, by their full heading. */
export type ProfileFile = ReadonlyMap<string, Section>;

/** Settings of a section. Indented ones below a setting are named "outer.inner". */
export type Section = ReadonlyMap<string, string>;

/** Reads the INI dialect of ~/.aws/config and ~/.aws/credentials; lines that are neither are skipped, as AWS does. */
export function parseProfileFile(text: string): ProfileFile {
  const file = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  let outer = "";
  for (const line of text.split(/\r?\n/)) {
    const heading = /^\[\s*([^\]]+?)\s*\]/.exec(line)?.[1];
    if (heading !== undefined) {
      const name = heading.replace(/\s+/g, " ");
      section = file.get(name) ?? new Map();
      file.set(name, section);
      outer = "";
      continue;
    }
    if (/^\s*([#;]|$)/.test(line)) continue;
    const setting = /^(\s*)([^\s=]+)\s*=\s*(.*?)\s*$/.exec(line);
    if (setting === null) continue;
    const [, indent = "", name = "", value = ""] = setting;
    if (indent === "") outer = name.toLowerCase();
    const key = indent === "" ? outer : `${outer}.${name.toLowerCase()}`;
    // A comment may stand behind a value, after a space.
    section.set(key, value.replace(/\s+[#;].*$/, ""));
  }
  return file;
}

/** A profile of ~/.aws/config: "default" has no prefix, every other one does. */
export function configSection(file: ProfileFile, profile: string): Section | undefined {
  return file.get(`profile ${profile}`) ?? (profile === "default" ? file.get("default") : undefined);
}
