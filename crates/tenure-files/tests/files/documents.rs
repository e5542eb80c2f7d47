//! Documents: transactions of threads and processes, fences, several at once, and what is kept.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_core::{Class, Error, Mode, Resource, Result, Token};
use tenure_files::Cancel;
use tenure_files::document::{Documents, Expect, Fence, Terms, Version};
use tenure_lockfile::FileCaller;

use crate::process::{Child, hear, say};
use crate::stage::{LONG, Stage, patient, until, until_waiting};

fn documents() -> Documents {
    Documents::new(LONG)
}

fn impatient() -> Documents {
    Documents::new(Duration::from_millis(50))
}

/// Returns documents whose waits end when this is cancelled.
fn cancelled_by(documents: &Documents, cancel: &Cancel) -> Documents {
    let mut caller = FileCaller::this_process(LONG);
    caller.cancel = cancel.clone();
    documents.for_caller(&caller)
}

fn raise(documents: &Documents, path: &Path) -> Result<u64> {
    documents.transaction(path, |counter: &mut Value| {
        let n = counter["n"].as_u64().unwrap() + 1;
        counter["n"] = n.into();
        Ok(n)
    })
}

fn names(stage: &Stage) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let names = fs::read_dir(stage.path()).unwrap().map(name);
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(documents: &Documents, path: &Path, text: &str, terms: &Terms<'_>) -> Result<Version> {
    let written = documents.edit::<_, Error>(&[path], terms, |_| Ok((vec![text.into()], ())));
    written.map(|(versions, ())| versions[0])
}

fn fence(resource: &str, token: u64) -> Terms<'static> {
    Terms::default().with_fence(Fence::new(
        "memory:",
        Resource::parse(resource).unwrap(),
        Token::new(token).unwrap(),
    ))
}

/// Plays a role: raises a counter as often as it is told.
pub fn play(arguments: &[&str]) {
    let (path, times) = (Path::new(arguments[0]), arguments[1].parse().unwrap());
    let documents = documents();
    say("ready");
    hear();
    for _ in 0..times {
        say(raise(&documents, path).unwrap());
    }
}

#[test]
fn transactions_of_threads_and_processes_lose_no_update() {
    let stage = Stage::new();
    let path = stage.at("counter.json");
    let documents = documents();
    documents.write(&path, &json!({"n": 0})).unwrap();
    let argument = path.to_str().unwrap();
    let start = |_| Child::start("count", &[argument, "50"]);
    let mut children: Vec<Child> = (0..4).map(start).collect();
    for child in &mut children {
        assert_eq!(child.answer(), "ready");
        child.tell("go");
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    raise(&documents, &path).unwrap();
                }
            });
        }
    });
    for mut child in children {
        let told: Vec<u64> = (0..50).map(|_| child.answer().parse().unwrap()).collect();
        assert!(told.is_sorted(), "each sees its own later: {told:?}");
        child.finish();
    }
    let counter: Value = documents.read(&path).unwrap().parse().unwrap();
    assert_eq!(counter["n"], 400);
    assert_eq!(names(&stage), [".counter.json.lock", "counter.json"]);
}

#[test]
fn an_error_or_a_panic_in_the_work_leaves_the_document_as_it_was() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    fs::write(&path, "{\"n\": 1}").unwrap();
    let before = fs::metadata(&path).unwrap();
    let documents = documents();
    let failed = documents.transaction(&path, |value: &mut Value| {
        *value = json!("half done");
        Err::<(), Error>(Error::BadInput("no".into()))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        documents.transaction(&path, |value: &mut Value| {
            *value = json!("half done");
            std::panic::resume_unwind(Box::new("on purpose"));
            #[expect(unreachable_code, reason = "the type of the work needs an end")]
            Ok::<(), Error>(())
        })
    }));
    assert!(panicked.is_err());
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (before.ino(), before.mtime_nsec()),
        (after.ino(), after.mtime_nsec())
    );
    assert_eq!(
        raise(&impatient(), &path).unwrap(),
        2,
        "the lock is free again"
    );
}

#[test]
fn readers_share_and_a_writer_waits_for_them() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    documents.write(&path, &1).unwrap();
    let lock = Documents::lock_file(&path).unwrap();
    let reader = patient().lock(&lock, Mode::Read).unwrap();
    assert_eq!(impatient().read(&path).unwrap().parse::<u32>().unwrap(), 1);
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            documents.write(&path, &2).unwrap();
            done.send(()).unwrap();
        });
        until_waiting(&lock, 1);
        assert!(is_done.try_recv().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        drop(reader);
        is_done.recv_timeout(LONG).unwrap();
    });
    assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
}

#[test]
fn a_reader_waits_for_a_writer_and_a_wait_ends_at_its_deadline() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    documents.write(&path, &1).unwrap();
    let writer = patient()
        .lock(&Documents::lock_file(&path).unwrap(), Mode::Write)
        .unwrap();
    let started = Instant::now();
    let error = impatient().read(&path).unwrap_err();
    assert_eq!(error.class(), Class::Busy);
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert_eq!(error.holders().len(), 1, "{error}");
    assert!(error.to_string().contains("a.json (read)"), "{error}");
    drop(writer);
    assert!(impatient().read(&path).is_ok());
}

#[test]
fn a_missing_document_is_created_once() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    let missing = documents.transaction(&path, |_: &mut Value| Ok::<_, Error>(()));
    assert_eq!(missing.unwrap_err().class(), Class::NotFound);
    let add = |name: &str| {
        documents.transaction_or_create(&path, Vec::<String>::new(), |list| {
            list.push(name.into());
            Ok::<_, Error>(list.len())
        })
    };
    thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            scope.spawn(move || add(name).unwrap());
        }
    });
    let list: Vec<String> = documents.read(&path).unwrap().parse().unwrap();
    assert_eq!(list.len(), 4, "{list:?}");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn an_expected_version_is_compared_under_the_lock() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    let expecting = |expect| Terms::default().with_expect(expect);
    let first = put(&documents, &path, "1", &expecting(Expect::Absent)).unwrap();
    let second = put(&documents, &path, "2", &expecting(Expect::Version(first))).unwrap();
    for stale in [Expect::Absent, Expect::Version(first)] {
        let refused = put(&documents, &path, "3", &expecting(stale)).unwrap_err();
        assert_eq!(refused.class(), Class::Conflict);
    }
    assert_eq!(documents.read(&path).unwrap().version(), second);
}

#[test]
fn a_document_refuses_an_older_token_and_another_lock() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    put(&documents, &path, "1", &fence("build", 7)).unwrap();
    let older = put(&documents, &path, "2", &fence("build", 6)).unwrap_err();
    assert_eq!(older.class(), Class::NotAllowed);
    let other = put(&documents, &path, "2", &fence("deploy", 8)).unwrap_err();
    assert_eq!(other.class(), Class::Conflict);
    assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    let mut rebound = fence("deploy", 8);
    rebound.fence.as_mut().unwrap().rebind = true;
    put(&documents, &path, "2", &rebound).unwrap();
    let back = put(&documents, &path, "3", &fence("build", 9)).unwrap_err();
    assert_eq!(back.class(), Class::Conflict);
    put(&documents, &path, "3", &Terms::default()).unwrap();
    let kept = put(&documents, &path, "4", &fence("deploy", 7)).unwrap_err();
    assert_eq!(
        kept.class(),
        Class::NotAllowed,
        "a write without a token changes no fence"
    );
}

#[test]
fn the_guard_is_asked_under_the_lock_before_the_work_and_before_the_write() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    documents.write(&path, &1).unwrap();
    let lock = Documents::lock_file(&path).unwrap();
    let asked = std::cell::Cell::new(0);
    let guard = || {
        asked.set(asked.get() + 1);
        assert!(
            patient().try_lock_shared(&lock).unwrap().is_none(),
            "it is locked"
        );
        match asked.get() {
            2 => Err(Error::BadInput("fenced meanwhile".into())),
            _ => Ok(()),
        }
    };
    let terms = Terms::default().with_guard(&guard);
    assert!(put(&documents, &path, "2", &terms).is_err());
    assert_eq!(asked.get(), 2);
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
}

#[test]
fn a_holder_whose_lock_file_was_replaced_writes_nothing() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    documents.write(&path, &1).unwrap();
    let lost = documents.transaction(&path, |value: &mut u32| {
        fs::remove_file(stage.at(".a.json.lock")).unwrap();
        *value = 2;
        Ok::<_, Error>(())
    });
    assert_eq!(lost.unwrap_err().class(), Class::Lost);
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
}

#[test]
fn a_transaction_over_several_changes_all_and_leaves_nothing_beside_them() {
    let stage = Stage::new();
    fs::create_dir(stage.at("z")).unwrap();
    let paths: Vec<PathBuf> = ["b.json", "a.json", "z/c.json"]
        .map(|name| stage.at(name))
        .into();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let documents = documents();
    for (at, path) in paths.iter().enumerate() {
        documents.write(path, &at).unwrap();
    }
    let seen = documents.transaction_many(&paths, |values: &mut [usize]| {
        let seen = values.to_vec();
        values.iter_mut().for_each(|value| *value += 10);
        Ok::<_, Error>(seen)
    });
    assert_eq!(seen.unwrap(), [0, 1, 2], "in the order they were named");
    let contents = documents.read_many(&paths).unwrap();
    let values: Vec<usize> = contents.iter().map(|it| it.parse().unwrap()).collect();
    assert_eq!(values, [10, 11, 12]);
    assert_eq!(
        names(&stage),
        [".a.json.lock", ".b.json.lock", "a.json", "b.json", "z"]
    );
}

#[test]
fn money_moved_between_documents_is_never_seen_in_both_or_in_neither() {
    let stage = Stage::new();
    let paths = ["a.json", "b.json", "c.json"].map(|name| stage.at(name));
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let documents = documents();
    for path in &paths {
        documents.write(path, &100).unwrap();
    }
    thread::scope(|scope| {
        for mover in 0..3_usize {
            let (documents, paths) = (&documents, &paths);
            scope.spawn(move || {
                for round in 0..60 {
                    // Pairs come in both orders: locks are ordered otherwise than names.
                    let pair = [paths[(mover + round) % 3], paths[(mover + round + 1) % 3]];
                    let moved = documents.transaction_many(&pair, |values: &mut [i64]| {
                        values[0] -= 1;
                        values[1] += 1;
                        Ok::<_, Error>(())
                    });
                    moved.unwrap();
                }
            });
        }
        for _ in 0..60 {
            let contents = documents.read_many(&paths).unwrap();
            let sum: i64 = contents.iter().map(|it| it.parse::<i64>().unwrap()).sum();
            assert_eq!(sum, 300);
        }
    });
}

#[test]
fn one_document_named_twice_is_refused_by_any_spelling() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    symlink("a.json", stage.at("link.json")).unwrap();
    let documents = documents();
    documents.write(&path, &1).unwrap();
    for other in [
        path.clone(),
        stage.at("link.json"),
        stage.at("./x/../a.json"),
    ] {
        let refused =
            documents.transaction_many(&[&path, &other], |_: &mut [u32]| Ok::<_, Error>(()));
        assert!(refused.is_err(), "{}", other.display());
    }
}

#[test]
fn a_document_that_becomes_a_link_between_two_reads_is_read_where_it_leads() {
    let stage = Stage::new();
    let (path, other) = (stage.at("a.json"), stage.at("b.json"));
    fs::write(&path, r#"{"n":1}"#).unwrap();
    fs::write(&other, r#"{"n":2}"#).unwrap();
    let documents = documents();
    let n = || documents.read(&path).unwrap().parse::<Value>().unwrap()["n"].clone();
    assert_eq!((n(), n()), (1.into(), 1.into()));
    fs::remove_file(&path).unwrap();
    symlink("b.json", &path).unwrap();
    assert_eq!(n(), 2);
}

#[test]
fn indentation_mode_owner_and_link_of_a_document_are_kept() {
    let stage = Stage::new();
    let (real, link) = (stage.at("real.json"), stage.at("link.json"));
    symlink("real.json", &link).unwrap();
    fs::write(&real, "\u{feff}{\n\t\"z\": 1.50,\n\t\"n\": 1\n}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&real, Some(12), Some(34)).unwrap();
    raise(&documents(), &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let found = fs::metadata(&real).unwrap();
    assert_eq!(
        (found.uid(), found.gid(), found.mode() & 0o777),
        (12, 34, 0o640)
    );
    let text = fs::read_to_string(&real).unwrap();
    assert_eq!(text, "\u{feff}{\n\t\"z\": 1.5,\n\t\"n\": 2\n}");
    let lock = fs::metadata(stage.at(".real.json.lock")).unwrap();
    assert_eq!(
        (lock.uid(), lock.mode() & 0o777),
        (12, 0o600),
        "its owner can lock it"
    );
}

#[test]
fn a_key_that_is_there_twice_is_not_lost_by_a_transaction() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    fs::write(&path, "{\"n\": 1, \"n\": 2}").unwrap();
    let refused = raise(&documents(), &path).unwrap_err();
    assert_eq!(refused.class(), Class::BadInput);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\": 1, \"n\": 2}");
}

#[test]
fn clean_removes_what_the_dead_left_and_nothing_else() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    documents.write(&path, &1).unwrap();
    put(&documents, &path, "1", &fence("build", 7)).unwrap();
    let left = [
        "..a.json.0123456789abcdef.journal.0123456789abcdef.tmp",
        "..a.json.note.0123456789abcdef.tmp",
        ".a.json.0123456789abcdef.tmp",
    ];
    let others = [
        "..a.json.0123456789abcdef.tmp",
        ".b.json.0123456789abcdef.tmp",
        "a.json.tmp",
    ];
    for name in left.iter().chain(&others) {
        fs::write(stage.at(name), "x").unwrap();
    }
    let expected: Vec<PathBuf> = left.iter().map(|name| stage.at(name)).collect();
    assert_eq!(documents.leftovers(&path).unwrap(), expected);
    assert_eq!(documents.clean(&path).unwrap(), expected);
    let mut remaining = vec![".a.json.lock", ".a.json.note", "a.json"];
    remaining.extend(others);
    remaining.sort_unstable();
    assert_eq!(names(&stage), remaining);
}

#[test]
fn clean_waits_for_a_live_writer_and_touches_nothing_of_it() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    documents.write(&path, &1).unwrap();
    let live = stage.at(".a.json.0123456789abcdef.tmp");
    let busy = documents.transaction(&path, |_: &mut u32| {
        fs::write(&live, "being written").unwrap();
        let cleaned = impatient().clean(&path);
        fs::remove_file(&live).expect("it is still there");
        Ok::<_, Error>(cleaned.unwrap_err().class())
    });
    assert_eq!(busy.unwrap(), Class::Busy);
}

fn assert_interrupted<T>(result: Result<T>) {
    let error = result.err().expect("it was not cancelled");
    assert_eq!(error.class(), Class::Interrupted, "{error}");
}

#[test]
fn a_cancelled_wait_for_the_second_document_changes_nothing_and_releases_the_first() {
    let stage = Stage::new();
    let [a, b] = ["a.json", "b.json"].map(|name| stage.at(name));
    let documents = documents();
    documents.write(&a, &json!({"n": 1})).unwrap();
    documents.write(&b, &json!({"n": 1})).unwrap();
    let before = names(&stage);
    let lock = Documents::lock_file(&b).unwrap();
    let held = patient().lock_exclusive(&lock).unwrap();
    let cancel = Cancel::default();
    let cancelled = cancelled_by(&documents, &cancel);
    thread::scope(|scope| {
        let both = scope
            .spawn(|| cancelled.transaction_many(&[&a, &b], |_: &mut [Value]| Ok::<_, Error>(())));
        until_waiting(&lock, 1);
        assert_eq!(impatient().read(&a).unwrap_err().class(), Class::Busy);
        let reading = scope.spawn(|| cancelled.read_all(&[&b]));
        cancel.cancel();
        assert_interrupted(both.join().unwrap());
        assert_interrupted(reading.join().unwrap());
    });
    assert_eq!(raise(&impatient(), &a).unwrap(), 2);
    drop(held);
    assert_eq!(raise(&impatient(), &b).unwrap(), 2);
    assert_eq!(names(&stage), before);
}

#[test]
fn a_call_that_is_cancelled_in_its_work_completes() {
    let stage = Stage::new();
    let [a, b] = ["a.json", "b.json"].map(|name| stage.at(name));
    documents().write(&a, &json!({"n": 1})).unwrap();
    documents().write(&b, &json!({"n": 1})).unwrap();
    for paths in [&[&*a][..], &[&*a, &*b]] {
        let cancel = Cancel::default();
        let documents = cancelled_by(&documents(), &cancel);
        let n = documents.transaction_many(paths, |counters: &mut [Value]| {
            cancel.cancel();
            for counter in counters.iter_mut() {
                counter["n"] = (counter["n"].as_u64().unwrap() + 1).into();
            }
            Ok::<_, Error>(counters[0]["n"].clone())
        });
        let read: Value = documents.read(&a).unwrap().parse().unwrap();
        assert_eq!(read["n"], n.unwrap());
    }
}

#[test]
fn whoever_follows_is_cancelled() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    documents().write(&path, &json!({"n": 1})).unwrap();
    let cancel = Cancel::default();
    let documents = cancelled_by(&documents(), &cancel);
    let mut follow = documents.follow(&path).unwrap();
    assert!(follow.next(Some(LONG)).unwrap().is_some());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| follow.next(None));
        cancel.cancel();
        assert_interrupted(waiting.join().unwrap());
    });
}

#[test]
fn whoever_follows_sees_every_change_it_waits_for() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    let mut follow = documents.follow(&path).unwrap();
    let mut next = || {
        let next = follow.next(Some(LONG)).unwrap().expect("a change in time");
        next.map(|content| content.parse::<u32>().unwrap())
    };
    assert_eq!(next(), None, "there is none yet");
    for n in 1..20 {
        documents.write(&path, &n).unwrap();
        assert_eq!(next(), Some(n));
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(next(), None);
    assert!(
        follow
            .next(Some(Duration::from_millis(20)))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_killed_commit_is_finished_by_whoever_reads_next() {
    // The simulated disk tests the crash at every step. Here a real process is killed when its
    // journal is seen, or after some commits if it is too fast for that.
    let stage = Stage::new();
    let paths = [stage.at("a.json"), stage.at("b.json")];
    let documents = documents();
    for path in &paths {
        documents.write(path, &0).unwrap();
    }
    let mut seen_after = 0;
    for round in 1..=20_u64 {
        let arguments = [paths[0].to_str().unwrap(), paths[1].to_str().unwrap()];
        let mut child = Child::start("commit", &arguments);
        assert_eq!(child.answer(), "ready");
        child.tell("go");
        let journal = || names(&stage).iter().any(|name| name.ends_with(".journal"));
        until("a journal, or some commits", || {
            journal()
                || child
                    .answer_within(Duration::ZERO)
                    .is_some_and(|said| said == "30")
        });
        child.kill();
        let read = |path: &Path| documents.read(path).unwrap().parse::<u64>().unwrap();
        // Each document is read alone: the first reader finishes the transaction for both.
        let (a, b) = (read(&paths[0]), read(&paths[1]));
        assert_eq!(a, b, "round {round}");
        seen_after += u64::from(a > 0);
        assert!(!journal());
    }
    assert!(seen_after > 0, "no commit was ever seen");
}

/// Plays a role: raises two documents together, again and again.
pub fn play_commit(arguments: &[&str]) {
    let paths: Vec<&Path> = arguments.iter().map(Path::new).collect();
    let documents = documents();
    say("ready");
    hear();
    for round in 1.. {
        let raised = documents.transaction_many(&paths, |values: &mut [u64]| {
            values.iter_mut().for_each(|value| *value += 1);
            Ok::<_, Error>(())
        });
        raised.unwrap();
        say(round);
    }
}

#[test]
fn a_question_about_nothing_leaves_nothing() {
    let stage = Stage::new();
    let path = stage.at("typo.json");
    let documents = documents();
    assert_eq!(documents.read(&path).unwrap_err().class(), Class::NotFound);
    assert_eq!(
        raise(&documents, &path).unwrap_err().class(),
        Class::NotFound
    );
    assert!(names(&stage).is_empty(), "{:?}", names(&stage));
}

/// Commits a change of two documents and dies before it is finished, so that the journal stays.
fn leave_journal(stage: &Stage, paths: [&Path; 2]) -> PathBuf {
    for _ in 0..200 {
        let arguments = [paths[0].to_str().unwrap(), paths[1].to_str().unwrap()];
        let mut child = Child::start("commit", &arguments);
        assert_eq!(child.answer(), "ready");
        child.tell("go");
        let journal = || {
            names(stage)
                .into_iter()
                .find(|name| name.ends_with(".journal"))
        };
        until("a journal", || journal().is_some());
        child.kill();
        if let Some(journal) = journal() {
            return stage.at(&journal);
        }
    }
    panic!("no process could be killed with its journal in place");
}

#[test]
fn a_journal_that_came_with_foreign_files_replaces_nothing() {
    let stage = Stage::new();
    fs::create_dir(stage.at("checkout")).unwrap();
    let (document, victim) = (stage.at("checkout/data.json"), stage.at("victim"));
    documents().write(&document, &1).unwrap();
    let journal = |step: &str| {
        let text = format!(
            "{{\"form\":1,\"documents\":[{{\"path\":\"data.json\",\"before\":null,\"after\":\"2\"}},\
             {{\"path\":\"{step}\",\"before\":null,\"after\":\"evil\"}}]}}"
        );
        format!("{text}\n{}\n", Version::of(text.as_bytes()))
    };
    for (named, step) in [
        (".data.json.0123456789abcdef.journal", "../victim"),
        ("./evil", "../victim"),
        ("/tmp/.data.json.0123456789abcdef.journal", "/tmp/victim"),
    ] {
        fs::write(
            stage.at("checkout").join(named.trim_start_matches('/')),
            journal(step),
        )
        .ok();
        let note = format!("{{\"journal\":\"{named}\"}}");
        fs::write(stage.at("checkout/.data.json.note"), note).unwrap();
        let refused = documents().read(&document).unwrap_err();
        assert_eq!(refused.class(), Class::BadInput, "{refused}");
        assert!(!victim.exists());
        assert_eq!(fs::read_to_string(&document).unwrap(), "1\n");
    }
}

#[test]
fn an_unfinished_transaction_is_finished_where_its_documents_were_moved() {
    let stage = Stage::new();
    fs::create_dir(stage.at("old")).unwrap();
    let inner = Stage::in_directory(&stage.at("old"));
    let paths = [inner.at("a.json"), inner.at("b.json")];
    for path in &paths {
        documents().write(path, &0).unwrap();
    }
    leave_journal(&inner, [&paths[0], &paths[1]]);
    fs::rename(stage.at("old"), stage.at("new")).unwrap();
    let read = |name: &str| -> u64 {
        let path = stage.at("new").join(name);
        documents().read(&path).unwrap().parse().unwrap()
    };
    let (a, b) = (read("a.json"), read("b.json"));
    assert_eq!(a, b);
    assert!(a > 0, "what was committed is there");
}

#[test]
fn an_unfinished_transaction_that_lost_a_directory_names_its_journal() {
    let stage = Stage::new();
    fs::create_dir(stage.at("z")).unwrap();
    let paths = [stage.at("a.json"), stage.at("z/b.json")];
    for path in &paths {
        documents().write(path, &0).unwrap();
    }
    let journal = leave_journal(&stage, [&paths[0], &paths[1]]);
    fs::remove_dir_all(stage.at("z")).unwrap();
    let refused = documents().read(&paths[0]).unwrap_err();
    assert_eq!(refused.class(), Class::BadInput, "{refused}");
    assert!(
        refused.to_string().contains(journal.to_str().unwrap()),
        "{refused}"
    );
    fs::remove_file(&journal).unwrap();
    assert!(documents().read(&paths[0]).is_ok(), "as the message says");
}

#[test]
fn a_file_that_something_is_mounted_on_is_refused_before_anything_happens() {
    let stage = Stage::new();
    let paths = [stage.at("a.json"), stage.at("b.json")];
    for path in &paths {
        documents().write(path, &1).unwrap();
    }
    fs::write(stage.at("other"), "1\n").unwrap();
    let mount = |arguments: &[&Path]| {
        let status = std::process::Command::new("mount")
            .arg("--bind")
            .args(arguments)
            .status();
        assert!(status.unwrap().success(), "mount needs root");
    };
    mount(&[&stage.at("other"), &paths[1]]);
    let both = [paths[0].as_path(), paths[1].as_path()];
    let refused = documents().transaction_many(&both, |values: &mut [u32]| {
        values.fill(2);
        Ok::<_, Error>(())
    });
    let alone = documents().write(&paths[1], &2);
    let unmounted = std::process::Command::new("umount").arg(&paths[1]).status();
    assert!(unmounted.unwrap().success());
    assert_eq!(refused.unwrap_err().class(), Class::Configuration);
    assert_eq!(alone.unwrap_err().class(), Class::Configuration);
    assert_eq!(fs::read_to_string(&paths[0]).unwrap(), "1\n");
}

#[test]
fn documents_that_are_created_together_are_seen_together() {
    let stage = Stage::new();
    let documents = documents();
    for round in 0..300 {
        let paths = [
            stage.at(&format!("a{round}")),
            stage.at(&format!("b{round}")),
        ];
        let paths = [paths[0].as_path(), paths[1].as_path()];
        thread::scope(|scope| {
            scope.spawn(|| {
                let texts = vec!["1".to_owned(), "1".to_owned()];
                let made =
                    documents.edit::<_, Error>(&paths, &Terms::default(), |_| Ok((texts, ())));
                made.unwrap();
            });
            loop {
                let seen = documents.read_all(&paths).unwrap();
                assert_eq!(seen[0].is_some(), seen[1].is_some(), "round {round}");
                if seen[0].is_some() {
                    break;
                }
            }
        });
    }
}

/// Plays a role: reads a document again and again, and reports an error.
pub fn play_reader(arguments: &[&str]) {
    say("ready");
    hear();
    let documents = documents();
    for _ in 0..300 {
        if let Err(error) = documents.read(Path::new(arguments[0])) {
            say(error);
            return;
        }
    }
    say("fine");
}

#[test]
fn who_may_only_read_is_neither_stopped_by_a_live_transaction_nor_in_the_way() {
    let stage = Stage::new();
    fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let paths = [stage.at("a.json"), stage.at("b.json")];
    for path in &paths {
        fs::write(path, "0").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let reader = ["setpriv", "--reuid=12", "--regid=12", "--clear-groups"];
    let mut child = Child::start_under(&reader, "read", &[paths[0].to_str().unwrap()]);
    assert_eq!(child.answer(), "ready");
    child.tell("go");
    let both = [paths[0].as_path(), paths[1].as_path()];
    let mut told = None;
    let documents = documents();
    until("all its reads", || {
        let raised = documents.transaction_many(&both, |values: &mut [u64]| {
            values.iter_mut().for_each(|value| *value += 1);
            Ok::<_, Error>(())
        });
        raised.unwrap();
        told = child.answer_within(Duration::ZERO);
        told.is_some()
    });
    assert_eq!(told.unwrap(), "fine");
    assert_eq!(fs::metadata(stage.at(".a.json.lock")).unwrap().uid(), 0);
}

#[test]
fn whoever_follows_a_link_goes_where_it_leads() {
    let stage = Stage::new();
    for name in ["one", "two"] {
        fs::create_dir(stage.at(name)).unwrap();
        documents()
            .write(&stage.at(name).join("a.json"), &name)
            .unwrap();
    }
    let lead_to = |name: &str| {
        symlink(format!("{name}/a.json"), stage.at("next")).unwrap();
        fs::rename(stage.at("next"), stage.at("link.json")).unwrap();
    };
    lead_to("one");
    let documents = documents();
    let mut follow = documents.follow(&stage.at("link.json")).unwrap();
    let mut next = || -> String {
        let next = follow.next(Some(LONG)).unwrap().expect("a change in time");
        next.unwrap().parse().unwrap()
    };
    assert_eq!(next(), "one");
    thread::scope(|scope| {
        scope.spawn(|| lead_to("two"));
        assert_eq!(next(), "two", "led elsewhere while it waited");
    });
    documents.write(&stage.at("two/a.json"), &"three").unwrap();
    assert_eq!(next(), "three");
}

#[test]
fn a_lock_file_of_some_other_program_is_none_of_nodes() {
    let stage = Stage::new();
    fs::write(stage.at("a.json.lock"), "").unwrap();
    documents().write(&stage.at("a.json"), &1).unwrap();
}

#[test]
fn work_that_asks_for_its_own_document_is_refused_at_once() {
    let stage = Stage::new();
    let path = stage.at("a.json");
    let documents = documents();
    documents.write(&path, &1).unwrap();
    let classes = documents.transaction(&path, |_: &mut u32| {
        let read = documents.read(&path).unwrap_err().class();
        let write = documents.write(&path, &2).unwrap_err().class();
        Ok::<_, Error>([read, write])
    });
    assert_eq!(classes.unwrap(), [Class::Conflict; 2]);
    assert_eq!(documents.read(&path).unwrap().parse::<u32>().unwrap(), 1);
}

#[test]
fn what_is_no_document_gets_no_lock_file() {
    let stage = Stage::new();
    fs::create_dir(stage.at("directory")).unwrap();
    let status = std::process::Command::new("mkfifo")
        .arg(stage.at("pipe"))
        .status();
    assert!(status.unwrap().success());
    for name in ["directory", "pipe"] {
        let path = stage.at(name);
        assert_eq!(
            documents().read(&path).unwrap_err().class(),
            Class::BadInput
        );
        assert_eq!(
            documents().write(&path, &1).unwrap_err().class(),
            Class::BadInput
        );
    }
    assert_eq!(names(&stage), ["directory", "pipe"]);
}

#[test]
fn who_may_not_write_a_document_makes_no_lock_file_for_it() {
    let stage = Stage::new();
    fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = stage.at("a.json");
    fs::write(&path, "{\"n\": 1}").unwrap();
    let writer = ["setpriv", "--reuid=12", "--regid=12", "--clear-groups"];
    let mut child = Child::start_under(&writer, "write", &[path.to_str().unwrap()]);
    assert!(child.answer().contains("may not be written by this user"));
    assert_eq!(names(&stage), ["a.json"]);
    assert_eq!(raise(&documents(), &path).unwrap(), 2);
}

/// Plays a role: writes a document, and reports the result.
pub fn play_writer(arguments: &[&str]) {
    let written = documents().write(Path::new(arguments[0]), &1);
    say(written.map_or_else(|error| error.to_string(), |_| "written".into()));
}
