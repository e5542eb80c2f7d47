//! Targets that something is mounted on, or in.

use std::fs;
use std::process::{Command, Output};

use crate::site::Site;
use crate::world::{code, text};

/// Runs a script that may mount. `$1` is the target, `$2` a source, `$3` another source.
fn with_mounts(site: &Site, script: &str) -> Output {
    let mut command = Command::new("unshare");
    site.world.prepare(&mut command);
    command.args(["--mount", "sh", "-euc", script, "sh", &site.target()]);
    command.args([site.source("one"), site.source("two")]);
    command.output().unwrap()
}

#[test]
fn nothing_is_removed_of_what_is_mounted_in_the_old_directory() {
    let site = Site::sqlite();
    fs::create_dir(site.path("kept")).unwrap();
    fs::write(site.path("kept/file"), "").unwrap();
    let script = r#""$TENURE" publish "$2" "$1"; mkdir "$1/mounted"; mount --bind kept "$1/mounted"
        "$TENURE" publish "$3" "$1"; "$TENURE" publish "$2" "$1"; ls kept
        tmp=$(echo srv/tmp/*); ls "$tmp" "$tmp/mounted"
        python3 -c "import sqlite3; c = sqlite3.connect('store/tenure.db'); c.execute(\"UPDATE records SET changed_at = '2020-01-01T00:00:00.000Z'\"); c.commit()"
        "$TENURE" recover; umount "$tmp/mounted"; "$TENURE" recover; ls srv/tmp | wc -l"#;
    let output = with_mounts(&site, script);
    assert_eq!(code(&output), 0, "{output:?}");
    let (said, warned) = (text(&output.stdout), text(&output.stderr));
    assert!(warned.contains("something is mounted on"), "{warned}");
    assert!(site.path("kept/file").exists(), "{said}");
    let kept = "kept: ";
    assert!(said.contains(kept) && said.contains("unmount it"), "{said}");
    assert!(
        said.contains("removed: ") && said.ends_with("\n0\n"),
        "{said}"
    );
    assert_eq!(site.content(&site.target()).as_deref(), Some("one"));
}

#[test]
fn a_target_that_something_is_mounted_on_is_refused_before_anything_is_copied() {
    let site = Site::sqlite();
    let script = r#"mkdir "$1"; mount -t tmpfs tmpfs "$1"
        "$TENURE" publish "$2" "$1" || echo "code $?"
        umount "$1"; mkdir -p other; mount --bind other "$1"
        "$TENURE" publish "$2" "$1" || echo "code $?"
        "$TENURE" publish --history "$1"; ls -a srv"#;
    let output = with_mounts(&site, script);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "code 65\ncode 65\n.\n..\ntiles\n",
        "no manifest, no lock and no tmp: {output:?}"
    );
    assert!(text(&output.stderr).contains("something is mounted on"));
}

#[test]
fn a_target_that_something_is_mounted_on_during_the_copy_is_refused_too() {
    let site = Site::sqlite();
    let script = r#""$TENURE" publish "$2" "$1"
        strace -qq -o trace -e trace=fchmod -e inject=fchmod:delay_enter=3000000:when=1 "$TENURE" publish "$3" "$1" &
        until ls srv/tmp/*/a.txt 2>/dev/null; do sleep 0.05; done
        mount -t tmpfs tmpfs "$1"; wait $! || echo "code $?"
        umount "$1"; cat "$1/a.txt"; ls srv/tmp | wc -l"#;
    let output = with_mounts(&site, script);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(said.ends_with("code 65\na of one0\n"), "{output:?}");
    assert_eq!(site.states(&site.target()), ["committed", "aborted"]);
}
