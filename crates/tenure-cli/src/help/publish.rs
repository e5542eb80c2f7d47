//! Help of `publish`.

/// After the options of `publish`.
pub const PUBLISH_LONG: &str = "\
Examples:
  tenure publish out /srv/tiles                put a copy of out in place, whole
  tenure publish out /srv/tiles --resource map:atlas/m3 --op-type tiles
  tenure publish --verify /srv/tiles           compare every file
  tenure publish --history /srv/tiles --json

SRC is copied to <parent of TARGET>/tmp/<id>, hashed and synced, and then takes
the place of TARGET in one step; a reader sees the old directory or the new.
A manifest in the store says what is in it, before and after. What a crash left
is finished or given up by the next publish to TARGET, and by tenure recover.
Links are copied as links. Modes are kept. At most 100,000 files.
Inside a `tenure run` that holds the resource for writing, its lease is used.

With --json prints {\"manifests\":[{\"id\",\"op_type\",\"target\",\"tmp\",\"state\",
\"files\":[{\"relative_path\",\"sha256\"}],\"created_at\",\"committed_at\",\"author\",
\"token\"}],\"next\"}; with --verify {\"manifest\",\"files\",\"differences\":[…]},
and {\"error\"} beside them if files differ.

Exit codes: 0 in place, or as the manifest says; 65 SRC changed or cannot be
published, TARGET is on another device, or files differ; 66 nothing was
published to TARGET; 69 the store or the disk failed: look at --history; 75
busy; 76 a program without locks changed TARGET; 77 another publisher took
over; 78 the store keeps no records; 130 interrupted, nothing in place.";
