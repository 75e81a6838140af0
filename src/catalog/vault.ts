import type { ErrorCatalog } from "../base/errors.ts";

/** Errors of writing to a vault. */
export const VAULT_ERRORS = {
  "usage/vault.path": {
    what: "A path or file name cannot be stored in a vault.",
    why: "Paths are relative, with forward slashes, UTF-8, without white space at either end, without backslash, NUL, drive letter, half of a surrogate pair, or a component that is empty, `.` or `..`. A vault with another path could not be opened again.",
    fix: "Rename the file, name another entry, or leave the file out with --exclude.",
  },
  "usage/vault.merge": {
    what: "Two of the files that are to be added would get the same path in the vault.",
    why: "One of them would silently be lost.",
    fix: "Add them one after the other with different --to, or leave one out.",
  },
  "usage/vault.exists": {
    what: "The vault has something under that path already.",
    why: "Moving and copying never replace anything, and a file never replaces a directory.",
    fix: "Remove it first with `tare vault rm`, or choose another path.",
  },
  "usage/vault.not-a-directory": {
    what: "A file of the vault is in the place of a directory.",
    why: "Nothing can lie below a file.",
    fix: "Choose another path, or move the file away with `tare vault mv`.",
  },
  "usage/vault.not-empty": {
    what: "The directory that is to be removed holds other entries.",
    why: "Everything in it would be lost with it.",
    fix: "Pass --recursive if that is meant.",
  },
  "usage/vault.into-itself": {
    what: "An entry cannot be moved or copied to itself or into itself.",
    why: "A directory would have to contain itself.",
    fix: "Choose another destination.",
  },
  "usage/vault.bounds": {
    what: "The lengths between which chunks are to be cut make no sense.",
    why: "They are recorded in the vault's manifest; with these, the reference would refuse to add, or chunks could not be read back.",
    fix: "Use one of the profiles. A vault that has such bounds can be read, and its files added to a new one.",
  },
  "usage/vault.parity": {
    what: "The parity of the vault cannot be taken out: it is all that could heal it.",
    why: "There is no sidecar beside the vault.",
    fix: "Run `tare vault parity VAULT export` first, or pass --force if that is meant.",
  },
  "usage/vault.was-encrypted": {
    what: "The vault at this place was encrypted when it was last seen, and the one there now is not.",
    why: "Anybody can make a vault without encryption and put it in the place of an encrypted one.",
    fix: "Look where the vault came from. If it is meant to have no encryption, pass --no-encryption once: from then on tare opens such vaults at this place when no password is given.",
  },
  "source/vault.memory": {
    severity: "warning",
    what: "What was seen of vaults before can neither be read nor kept, or others may write to it.",
    why: "Without it tare does not notice a vault that was put back to an earlier state, or one without encryption in the place of an encrypted one. The vault opens all the same.",
    fix: "Let $XDG_STATE_HOME/tare (~/.local/state/tare) be a folder that you own and that no other user may write to.",
  },
  "integrity/vault.older": {
    severity: "warning",
    what: "The vault is in an earlier state than the one last seen on this machine. A warning.",
    why: "A copy or another name of this vault was changed since, as with hard links; or someone put an older copy in its place: a backup that was restored, or an attempt to undo changes.",
    fix: "Where you keep copies, look at the one that was changed last. If it was not you, find out who did it. A change that is made to this one is remembered, and ends the warning until another copy is changed.",
  },
  "usage/vault.password": {
    what: "The new password is too short, or no text that could be typed.",
    why: "The format asks for eight bytes of UTF-8. Other programs could not be given a password that is no UTF-8, or that begins with a byte order mark.",
    fix: "Choose a longer one: a few words are easy to remember and hard to guess. Save its file as UTF-8 without a mark.",
  },
  "integrity/aerovault.sidecar": {
    severity: "warning",
    what: "The vault is not the one that its sidecar was made of.",
    why: "It was changed since, so the sidecar is out of date, or it is damaged.",
    fix: "Scrub it with the password. `tare vault parity VAULT export` makes the sidecar again.",
  },
  "source/vault.input-changed": {
    what: "A file changed while it was being added.",
    why: "What was read first and what was read later do not belong together. The vault is as it was.",
    fix: "Run the command again when nothing writes to the file.",
  },
  "unsupported/vault.place": {
    what: "A vault at a URL, or inside another vault, was to be changed.",
    why: "Such vaults are read where they are. Changing one needs its lock, its folder and the right to write there.",
    fix: "Get it with `tare pull` or `tare vault extract`, change the file, and put it back.",
  },
  "unsupported/vault.plain": {
    what: "The vault is not encrypted, so that it has no password to change.",
    why: "The plaintext lane has no keys of its own.",
    fix: "Create an encrypted vault and add the contents of this one.",
  },
} as const satisfies ErrorCatalog;

export const VAULT_UPGRADE_ERRORS = {
  "integrity/upgrade.vault": {
    what: "The new vault does not hold what the old one does.",
    why: "Every entry is read back and compared before the new vault gets its name.",
    fix: "Run the command again; if it fails again, check memory and disk.",
  },
} as const satisfies ErrorCatalog;

/** Errors of the lock of a vault. */
export const VAULT_LOCK_ERRORS = {
  "source/vault.locked": {
    what: "Another program is writing to the vault.",
    why: "Two writers at once would each undo what the other did. The lock file beside the vault names the process.",
    fix: "Wait until it has ended. A lock of a process on another machine, or of one that cannot be asked for, is not taken over: if that process is gone, remove the lock file. Locks of this machine, also of an earlier boot, are taken over once their process has ended.",
  },
} as const satisfies ErrorCatalog;

/** Errors of a vault that is no longer the one that was opened. */
export const VAULT_MARK_ERRORS = {
  "source/vault.after-change": {
    what: "The change of the vault is in place, but a step that follows it failed.",
    why: "The disk refused to make the change durable, to remove a journal or to cut off what is unused, or a function that the program gave, such as `onNote`, threw an error.",
    fix: "Do not repeat the change. Look at the vault with tare vault scrub once the cause is mended.",
  },
  "source/vault.sidecar-kept": {
    what: "The vault was changed, but its sidecar, which is of the state before, could be neither made again nor removed.",
    why: "The sidecar may be write-protected, or its folder may be. After a change of the password it holds the key slots of the old one.",
    fix: "Remove the sidecar yourself, and export it again. Do not repeat the change.",
  },
  "source/vault.keys": {
    what: "A vault that a program has open has other keys by now.",
    why: "Somebody gave it new keys (`tare vault passwd --rekey`), put another vault in its place, or damaged its header. The keys that the program got when it opened the vault do not fit any more.",
    fix: "Close the vault and open it again, with its password of now.",
  },
  "source/vault.lock-lost": {
    what: "The lock of the vault was removed while its process was at work, or another program has it now.",
    why: "Two writers at once would each undo what the other did. So a writer looks at its lock before each write, and stops if it is not there.",
    fix: "Run the command again; nothing of this change was kept. Remove a lock only if its process has ended.",
  },
  "source/vault.displaced": {
    what: "The change of the vault was written, but another file has the name of the vault by now, or none.",
    why: "The vault was moved or replaced at that moment. Another writer can do this if the lock was removed by hand.",
    fix: "Look whether the change is in the file that has the name. If it is not, make it again.",
  },
  "source/vault.changed": {
    what: "Something else changed the vault between opening it and writing to it.",
    why: "Writing now would undo that change. Programs that do not use the lock beside the vault can do this.",
    fix: "Run the command again when nothing else writes to the vault; it is as the other program left it.",
  },
} as const satisfies ErrorCatalog;

/** Errors of changing a vault on disk. */
export const VAULT_DRAFT_ERRORS = {
  "unsupported/vault.mount": {
    what: "The vault is a file that is mounted by itself, as `docker run -v FILE:FILE` does.",
    why: "A change ends by putting a new file in the place of the old one, which a mount prevents; and the lock beside the vault is another one here than where the file comes from, so that two writers could be at work at once.",
    fix: "Mount the folder that the vault is in, or change the vault where it comes from.",
  },
} as const satisfies ErrorCatalog;

/** Errors of the inputs that are added to a vault. */
export const VAULT_TREE_ERRORS = {
  "usage/vault.link": {
    what: "A link leads to a folder, or folders and links form a circle.",
    why: "A vault stores files and directories; a link may lead to anything, or everything once more.",
    fix: "Pass --follow to store what links to folders point to, name the folder itself, or leave the link out with --exclude.",
  },
  "limit/vault.depth": {
    what: "The tree has more folders inside folders than a vault takes.",
    why: "Other programs silently drop what is deeper than 100 levels; here that is an error.",
    fix: "Add the deep part by itself, with --to.",
  },
} as const satisfies ErrorCatalog;

/** Errors of writing entries to disk. */
export const VAULT_EXTRACT_ERRORS = {
  "format/vault.name": {
    what: "An entry of an older vault has a name with a backslash or a colon, which lead elsewhere on this system.",
    why: "Such a name is a plain file name on other systems, and older programs stored it.",
    fix: "Extract it on Linux or macOS.",
  },
  "usage/vault.same-name": {
    what: "Two entries of the vault, or two files of one output, have names that the file system takes for one.",
    why: "macOS, Windows, exFAT and SMB tell names apart neither by case nor by the Unicode form of accents, and some pass over dots at the end or characters that are not seen: one of the files would be lost. --force replaces only what was there before.",
    fix: "Extract them by their names into different folders, or to a file system that keeps them apart.",
  },
  "usage/vault.own-file": {
    what: "The output is the vault that the command works with, by whatever name, or its sidecar, lock or journal; or an entry would be extracted there.",
    why: "The vault would be destroyed for what was taken out of it. Its author chose the names in it, and --force is meant for earlier outputs.",
    fix: "Choose another name for the output, or another folder.",
  },
  "source/vault.link": {
    what: "A link or a file is in the place of a folder that extraction needs.",
    why: "Following a link inside the output folder could write anywhere on the disk.",
    fix: "Remove it, or extract to an empty folder.",
  },
} as const satisfies ErrorCatalog;

/** Errors of vaults that a program has open. */
export const VAULT_LIBRARY_ERRORS = {
  "usage/vault.closed": {
    what: "A vault was used after it was closed.",
    why: "Closing wipes the keys and releases the file; a dry run of createVault gives a vault that was never open.",
    fix: "Open the vault again, or close it later.",
  },
  "usage/vault.read-only": {
    what: "A vault was to be changed where it can only be read.",
    why: "Changing takes the file, its lock and its folder: only a vault of version 3 that is opened by its path, in Node, can be changed.",
    fix: "Open the vault by its path; get a remote one first with `tare pull`, and bring an older one to version 3 with `tare upgrade`.",
  },
  "usage/vault.batch": {
    what: "Something that a batch cannot hold was asked for within one, or after its end, or the work of a batch changed its vault through another object.",
    why: "A batch is one commit of changes of entries. Compacting, another password, parity and another batch are commits of their own, and so is a change of the vault that the batch was made of: it would wait for the batch, which waits for it.",
    fix: "Within the batch, use the vault that it gives to its work. Call everything else on the vault itself, before the batch or after it, and wait for every change before the work of the batch ends.",
  },
  "usage/not-a-vault": {
    what: "A vault was asked for, but the input is a model.",
    why: "A model has tensors, not files.",
    fix: "Look at it with `tare ls`, `tare inspect` or `tare cat`; in a program, open it with openModel, or with open, which takes both.",
  },
} as const satisfies ErrorCatalog;
