//! Help of `doc`.

/// After the commands of `doc`.
pub const DOC_LONG: &str = "\
Examples:
  echo '{\"n\": 0}' | tenure doc write counter.json
  tenure doc update counter.json -- jq '.n += 1'
  tenure doc read counter.json --json          its version, and the document
  tenure doc read --follow counter.json        each time it changes

A document is a JSON file. A reader sees it whole, before a change or after it;
changes happen one after the other, and are on disk when the command ends. Its
lock is the file .NAME.lock beside it, which stays there. A new document has
mode 0600; one that is there keeps its mode and owner.";

/// After the options of `doc read`.
pub const DOC_READ_LONG: &str = "\
Examples:
  tenure doc read a.json | jq .n
  tenure doc read a.json b.json --json         both as they are at one moment
  tenure doc read --create '{}' a.json
  tenure doc read --follow a.json --json       one object a line

With --json prints {\"version\",\"document\"}; the version is for --expect. Several
documents are {\"documents\":[{\"file\",\"version\",\"document\"}],\"next\":null}.

Exit codes: 0 done; 65 it is not JSON, or a key is there twice; 66 there is no
such document; 75 it is being changed for too long; 77 it may not be read.";

/// After the options of `doc write`.
pub const DOC_WRITE_LONG: &str = "\
Examples:
  tenure doc write a.json < new.json
  tenure doc write --expect absent a.json < new.json        only if there is none
  tenure doc write --expect \"$version\" a.json < new.json
  tenure doc write --token \"deploy#$token\" a.json < new.json

Standard input is checked, and put in place byte for byte. Prints the version.
The document that is there may be broken: this repairs it.

Inside `tenure run`, the tokens of its locks are checked, and after the loss
of a lock nothing is written. So is --token: it must be the newest that its
store granted, and where the store cannot be asked nothing is written. A
document remembers the token of its last write with --token and refuses older
ones. A token of another lock is a conflict until --rebind, which also mends a
document that remembers a token that was never granted, and says what it
overrides.

Exit codes: 0 written; 65 standard input is not JSON; 66 there is no such
directory, or the store never heard of the lock; 69 the store cannot be asked;
75 busy or timed out; 76 it is at another version, or guarded by another lock;
77 fenced, never granted, or it may not be written; 79 the lock was lost.";

/// After the options of `doc update`.
pub const DOC_UPDATE_LONG: &str = "\
Examples:
  tenure doc update a.json -- jq '.n += 1'
  tenure doc update --create '{\"n\":0}' a.json -- jq '.n += 1'
  tenure doc update a.json b.json -- jq '.[\"b.json\"].n = .[\"a.json\"].n'
  tenure doc update --compat proper-lockfile a.json -- jq '.n += 1'

The command gets the document on standard input and prints the new one. It is
written only if the command exits 0 and prints JSON; else the document stays as
it was. Nobody else changes it meanwhile. Indentation, byte order mark and last
newline stay as they were. The command gets TENURE_DOCUMENT, the path. What it
prints is what is written: jq, for one, rounds numbers with many digits.

Several documents are one object, {\"FILE\": document, ...}, with the names as given
here; the command prints the same names. All of them change, or none.

Prints the version. See `tenure doc write --help` for tokens.

Exit codes: 0 written; that of the command if it fails (128 + signal; 126 not
executable, 127 not found); 65 it printed no JSON; 66 there is no such document,
or lock; 69 the store cannot be asked; 75 busy or timed out; 76 another version,
or another lock; 77 fenced, never granted, or not allowed; 79 the lock was lost
while the command ran; 130 interrupted while waiting.";

/// After the options of `doc clean`.
pub const DOC_CLEAN_LONG: &str = "\
Examples:
  tenure doc clean a.json
  tenure doc clean --yes a.json

Shows what it will remove, and asks. Finishes transactions whose process died.
Temporary files of Node programs, FILE.tmp.HEX, go once their lock is free.
Never removes what a live writer uses, nor lock files, which stay for good.

Exit codes: 0 removed, or nothing was left; 1 you did not agree; 2 there is no
terminal to ask on; 75 it is being changed for too long.";
