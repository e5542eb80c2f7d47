//! Random operations of several processes that are killed and stopped, and an independent checker.
//!
//! Each process writes down in a file of its own what it is about to do, and the result. An
//! operation without a result may have happened or not. The checker compares all these files with
//! the board in the end, without a look at how the product decides:
//!
//! - A change that was acknowledged is there, and so is its one event. A change without an answer
//!   is there once at most.
//! - Two claims of one issue never surely stood at the same time: a claim surely stands from its
//!   answer on until its owner asks to end it, or until its time, counted from the question, is
//!   over.
//! - Tokens of an issue go up, an id that was deleted never comes back, dependencies form no
//!   circle.
//! - Leftovers of killed processes are found and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure::{Class, Error};
use tenure_board::{Board, Next, Take};
use tenure_os::clock;
use tenure_testkit::{campaign_end, tell};

use crate::place::{Place, id, judge, open_for, titled};
use crate::process::Child;

const WORKERS: usize = 4;
const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The time of a claim: some claims run out while their owner stands still.
const TTL: Duration = Duration::from_secs(1);
/// The board is checked each time this much time has passed.
const ROUND: Duration = Duration::from_secs(3);

/// Numbers that look random and are fixed by their seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn id(&mut self) -> &'static str {
        IDS[self.below(IDS.len() as u64) as usize]
    }
}

/// An operation that a process is about to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Work {
    Create(String),
    Delete(String),
    Note(String, String),
    Raise(String),
    Depend(String, String),
    Undepend(String, String),
    Claim(String),
    Next,
    Renew(String, u64),
    Release(String, u64),
    Done(String, u64),
    Reopen(String),
}

/// A line that a process writes down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Line {
    /// An operation begins, at a time since boot.
    Begin(u64, Work),
    /// The operation is acknowledged at a time since boot, with the issue and its claim's token.
    Done(u64, Option<(String, u64)>),
    /// The operation was refused, and nothing has happened.
    Refused,
    /// The operation may have happened or not.
    HalfWay,
}

/// Works on the board in the name of an owner, until it is killed.
pub fn work(root: &Path, journal: &Path, owner: &str, seed: &str) {
    let owner = tenure::Owner::parse(owner).unwrap();
    let asker = tenure::SessionOptions::new(owner).asker();
    let board = open_for(root, Duration::from_secs(20), asker);
    let mut journal = OpenOptions::new()
        .create(true)
        .append(true)
        .open(journal)
        .unwrap();
    let mut write = |line: Line| {
        let text = format!("{}\n", serde_json::to_string(&line).unwrap());
        journal.write_all(text.as_bytes()).unwrap();
    };
    let mut numbers = Numbers(seed.parse().unwrap());
    let mut claims: Vec<(String, u64)> = Vec::new();
    loop {
        let work = next_work(&mut numbers, &mut claims);
        write(Line::Begin(clock::boot_now(), work.clone()));
        let done = carry_out(&board, &work);
        let now = clock::boot_now();
        match done {
            Ok(claimed) => {
                if let (Work::Claim(_) | Work::Next, Some(claim)) = (&work, &claimed) {
                    claims.push(claim.clone());
                }
                write(Line::Done(now, claimed));
            }
            Err(Error::HalfWay { .. }) => write(Line::HalfWay),
            Err(error) => {
                let expected = [
                    Class::Busy,
                    Class::Conflict,
                    Class::NotAllowed,
                    Class::NotFound,
                ];
                assert!(expected.contains(&error.class()), "{work:?}: {error}");
                write(Line::Refused);
            }
        }
    }
}

fn next_work(numbers: &mut Numbers, claims: &mut Vec<(String, u64)>) -> Work {
    let issue = numbers.id().to_owned();
    let word = format!("{:016x}", numbers.below(u64::MAX));
    if !claims.is_empty() && numbers.below(3) == 0 {
        let (issue, token) = claims[0].clone();
        if numbers.below(3) == 0 {
            return Work::Renew(issue, token);
        }
        claims.remove(0);
        return match numbers.below(2) {
            0 => Work::Release(issue, token),
            _ => Work::Done(issue, token),
        };
    }
    match numbers.below(24) {
        0 => Work::Create(format!("x{word}")),
        1 => Work::Create(issue),
        2 => Work::Delete(format!("x{word}")),
        3..=8 => Work::Note(issue, word),
        9..=14 => Work::Raise(issue),
        15 => Work::Depend(issue, numbers.id().to_owned()),
        16 | 17 => Work::Undepend(issue, numbers.id().to_owned()),
        18 | 19 => Work::Claim(issue),
        20 | 21 => Work::Next,
        _ => Work::Reopen(issue),
    }
}

/// Makes an operation, and returns the issue that it claimed, and its token.
fn carry_out(board: &Board, work: &Work) -> tenure::Result<Option<(String, u64)>> {
    let claimed = |issue: &tenure_board::issue::Issue| {
        let token = issue.claim.as_ref().unwrap().token;
        Some((issue.id.to_string(), token))
    };
    match work {
        Work::Create(new) => board.create(titled(new)).map(|_| None),
        Work::Delete(old) => board.delete(&id(old)).map(|()| None),
        Work::Note(issue, text) => board.note(&id(issue), text).map(|_| None),
        Work::Raise(issue) => {
            let raised = board.update(&id(issue), |issue| {
                let raised = issue
                    .other
                    .get("raised")
                    .and_then(Value::as_u64)
                    .unwrap_or(0)
                    + 1;
                issue.other.insert("raised".into(), raised.into());
                Ok(())
            });
            raised.map(|_| None)
        }
        Work::Depend(issue, on) => board.depend(&id(issue), &id(on)).map(|_| None),
        Work::Undepend(issue, on) => board.undepend(&id(issue), &id(on)).map(|_| None),
        Work::Claim(issue) => Ok(claimed(&board.claim(&id(issue), Some(TTL))?)),
        Work::Next => match board.next(None, Take::Claim(Some(TTL)))? {
            Next::Issue(issue) => Ok(claimed(&issue)),
            Next::Nothing(_) => Err(Error::NotFound("nothing is ready".into())),
        },
        Work::Renew(issue, token) => Ok(claimed(&board.renew(
            &id(issue),
            Some(*token),
            Some(TTL),
        )?)),
        Work::Release(issue, token) => board.release(&id(issue), Some(*token)).map(|_| None),
        Work::Done(issue, token) => board.done(&id(issue), Some(*token)).map(|_| None),
        Work::Reopen(issue) => {
            let reopened = board.update(&id(issue), |issue| {
                issue.state = tenure_board::issue::IssueState::Open;
                Ok(())
            });
            reopened.map(|_| None)
        }
    }
}

/// One call of one process, with its start and its result.
#[derive(Debug, Clone)]
struct Call {
    begun: u64,
    work: Work,
    came: Came,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
enum Came {
    Acknowledged(u64, Option<(String, u64)>),
    Refused,
    Unknown,
}

/// Reads the file of a process. A half line at its end is the entry in whose writing the process
/// was killed.
fn calls(journal: &Path) -> Vec<Call> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        let Ok(line) = serde_json::from_str(line) else {
            continue;
        };
        let came = match line {
            Line::Begin(begun, work) => {
                calls.push(Call {
                    begun,
                    work,
                    came: Came::Unknown,
                });
                continue;
            }
            Line::Done(at, claimed) => Came::Acknowledged(at, claimed),
            Line::Refused => Came::Refused,
            Line::HalfWay => Came::Unknown,
        };
        calls.last_mut().unwrap().came = came;
    }
    calls
}

/// The least and the most times that something happened.
#[derive(Debug, Default, Clone, Copy)]
struct Bounds {
    least: usize,
    most: usize,
}

impl Bounds {
    fn count<'a>(calls: impl Iterator<Item = &'a Call>) -> Self {
        let mut bounds = Self::default();
        for call in calls.filter(|call| call.came != Came::Refused) {
            bounds.most += 1;
            bounds.least += usize::from(call.came != Came::Unknown);
        }
        bounds
    }

    fn require(self, count: usize, what: &str) -> Result<(), String> {
        match (self.least..=self.most).contains(&count) {
            true => Ok(()),
            false => Err(format!(
                "{what}: {count}, not from {} to {}",
                self.least, self.most
            )),
        }
    }
}

/// The state of the board in the end.
struct Seen {
    /// The content of the issues' files.
    issues: BTreeMap<String, Value>,
    deleted: BTreeSet<String>,
    /// The type and the issue of each event.
    events: Vec<(String, String)>,
}

impl Seen {
    fn on(root: &Path) -> Self {
        let json =
            |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        let index = json(root.join("index.json"));
        let ids = |name: &str| {
            let ids = index[name].as_array().unwrap().iter();
            ids.map(|id| id.as_str().unwrap().to_owned())
                .collect::<BTreeSet<_>>()
        };
        let issue = |id: String| (id.clone(), json(root.join(format!("issues/{id}.json"))));
        let log = fs::read_to_string(root.join("events.jsonl")).unwrap();
        let event = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| event[name].as_str().unwrap().to_owned();
            (field("type"), field("issue_id"))
        };
        Self {
            issues: ids("all_ids").into_iter().map(issue).collect(),
            deleted: ids("deleted_ids"),
            events: log.lines().map(event).collect(),
        }
    }
}

/// Compares the calls of all processes with the board.
fn check(calls: &[Call], seen: &Seen) -> Result<(), String> {
    let all: BTreeSet<String> = seen.issues.keys().chain(&seen.deleted).cloned().collect();
    for issue in &all {
        check_existence(calls, seen, issue)?;
        check_events(calls, seen, issue)?;
        check_claims(calls, issue)?;
        if let Some(file) = seen.issues.get(issue) {
            check_content(calls, file, issue)?;
        }
    }
    let known = |call: &&Call| match &call.work {
        Work::Create(new) => matches!(call.came, Came::Acknowledged(..)) && !all.contains(new),
        _ => false,
    };
    calls
        .iter()
        .find(known)
        .map_or(Ok(()), |lost| Err(format!("{lost:?} is lost")))
}

fn check_existence(calls: &[Call], seen: &Seen, issue: &str) -> Result<(), String> {
    let deleting = calls
        .iter()
        .filter(|call| call.work == Work::Delete(issue.to_owned()));
    let is_deleted = usize::from(seen.deleted.contains(issue));
    Bounds::count(deleting).require(is_deleted, &format!("{issue} is deleted"))?;
    match seen.deleted.contains(issue) && seen.issues.contains_key(issue) {
        true => Err(format!("{issue} came back")),
        false => Ok(()),
    }
}

fn check_events(calls: &[Call], seen: &Seen, issue: &str) -> Result<(), String> {
    let own_issue = &issue.to_owned();
    let is_about = |call: &&Call, kind: &str| {
        let claimed = match &call.came {
            Came::Acknowledged(_, Some((claimed, _))) => Some(claimed),
            _ => None,
        };
        let (own, is_kind) = match &call.work {
            Work::Create(id) => (id, kind == "issue_created"),
            Work::Delete(id) => (id, kind == "issue_deleted"),
            Work::Note(id, _) => (id, kind == "issue_noted"),
            Work::Raise(id) => (id, kind == "issue_updated"),
            Work::Claim(id) => (id, kind == "issue_claimed"),
            // Without an answer the call may have claimed any issue.
            Work::Next => (claimed.unwrap_or(own_issue), kind == "issue_claimed"),
            Work::Renew(id, _) => (id, kind == "claim_renewed"),
            Work::Release(id, _) => (id, kind == "claim_released"),
            Work::Done(id, _) => (id, kind == "issue_done"),
            // These may be acknowledged without a change.
            Work::Depend(..) | Work::Undepend(..) | Work::Reopen(_) => return false,
        };
        own == issue && is_kind
    };
    for kind in [
        "issue_created",
        "issue_deleted",
        "issue_noted",
        "issue_updated",
        "issue_claimed",
        "claim_renewed",
        "claim_released",
        "issue_done",
    ] {
        let about = calls.iter().filter(|call| is_about(call, kind));
        let found = seen
            .events
            .iter()
            .filter(|(is, of)| is == kind && of == issue);
        let mut bounds = Bounds::count(about);
        if kind == "issue_created" && IDS.contains(&issue) {
            // The issue was there from the start.
            bounds = Bounds {
                least: bounds.least + 1,
                most: bounds.most + 1,
            };
        }
        bounds.require(found.count(), &format!("{kind} of {issue}"))?;
    }
    Ok(())
}

fn check_content(calls: &[Call], file: &Value, issue: &str) -> Result<(), String> {
    let raising = calls
        .iter()
        .filter(|call| call.work == Work::Raise(issue.to_owned()));
    let raised = file["raised"].as_u64().unwrap_or(0) as usize;
    Bounds::count(raising).require(raised, &format!("{issue} was raised"))?;
    let noting = calls.iter().filter_map(|call| match &call.work {
        Work::Note(id, text) if id == issue => Some((call, text)),
        _ => None,
    });
    let notes = file["notes"].as_array().ok_or("no notes")?;
    for (call, text) in noting {
        let found = notes.iter().filter(|note| note["text"] == **text).count();
        Bounds::count([call].into_iter()).require(found, &format!("the note {text} of {issue}"))?;
    }
    Ok(())
}

/// The time during which a claim surely stood, and its token.
#[derive(Debug)]
struct Sure {
    from: u64,
    until: u64,
    token: u64,
}

fn check_claims(calls: &[Call], issue: &str) -> Result<(), String> {
    let ttl = TTL.as_millis() as u64;
    let mut claims: BTreeMap<u64, Sure> = BTreeMap::new();
    for call in calls {
        match (&call.work, &call.came) {
            (Work::Claim(_) | Work::Next, Came::Acknowledged(at, Some((id, token))))
                if id == issue =>
            {
                let sure = Sure {
                    from: *at,
                    until: call.begun + ttl,
                    token: *token,
                };
                if let Some(twice) = claims.insert(*token, sure) {
                    return Err(format!("two have token {} of {issue}", twice.token));
                }
            }
            _ => {}
        }
    }
    for call in calls {
        match (&call.work, &call.came) {
            (Work::Renew(id, token), Came::Acknowledged(..)) if id == issue => {
                let claim = claims
                    .get_mut(token)
                    .ok_or("a claim that nobody made is renewed")?;
                claim.until = claim.until.max(call.begun + ttl);
            }
            _ => {}
        }
    }
    for call in calls {
        if let Work::Release(id, token) | Work::Done(id, token) = &call.work
            && id == issue
            && let Some(claim) = claims.get_mut(token)
        {
            claim.until = claim.until.min(call.begun);
        }
    }
    let mut claims: Vec<Sure> = claims.into_values().collect();
    claims.retain(|claim| claim.from < claim.until);
    claims.sort_by_key(|claim| claim.from);
    for pair in claims.windows(2) {
        if pair[1].from < pair[0].until {
            return Err(format!("two have {issue}: {pair:?}"));
        }
        if pair[1].token <= pair[0].token {
            return Err(format!("tokens of {issue} go back: {pair:?}"));
        }
    }
    Ok(())
}

/// A process that works on the board.
struct Worker {
    child: Child,
    /// The process stands still until this moment.
    stopped: Option<Instant>,
}

/// Kills and stops workers for one round, and returns the numbers of kills and stops.
fn torment(place: &Place, journals: &Path, numbers: &mut Numbers, ends: Instant) -> (u32, u32) {
    let mut started = 0;
    let mut start = |numbers: &mut Numbers| {
        started += 1;
        let journal = journals.join(format!("{started}"));
        File::create(&journal).unwrap();
        let arguments = [
            place.root().display().to_string(),
            journal.display().to_string(),
            // The successor of a killed worker has another name, as a new agent does.
            format!("agent:{started}"),
            numbers.below(u64::MAX).to_string(),
        ];
        let child = Child::start("campaign", &arguments.each_ref().map(String::as_str));
        Worker {
            child,
            stopped: None,
        }
    };
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| start(numbers)).collect();
    let (mut kills, mut stops) = (0, 0);
    while Instant::now() < ends {
        thread::sleep(Duration::from_millis(10 + numbers.below(60)));
        for worker in &mut workers {
            if worker.stopped.is_some_and(|until| until <= Instant::now()) {
                worker.stopped = None;
                worker.child.signal(libc::SIGCONT);
            }
        }
        let worker = &mut workers[numbers.below(WORKERS as u64) as usize];
        if worker.stopped.is_some() {
            continue;
        }
        if numbers.below(3) == 0 {
            stops += 1;
            worker.child.signal(libc::SIGSTOP);
            // Some workers stand still for longer than their claims last.
            let still = Duration::from_millis(50 + numbers.below(1500));
            worker.stopped = Some(Instant::now() + still);
        } else {
            kills += 1;
            worker.child.kill();
            *worker = start(numbers);
        }
    }
    for worker in &mut workers {
        worker.child.kill();
    }
    (kills + WORKERS as u32, stops)
}

#[test]
fn what_processes_did_that_are_killed_and_stopped_is_there_and_nobody_shared_an_issue() {
    let ends = campaign_end();
    let seed = u64::try_from(tenure::clock::now().as_millis()).unwrap();
    let mut numbers = Numbers(seed);
    let (mut rounds, mut kills, mut stops, mut all) = (0, 0, 0, 0);
    while rounds == 0 || Instant::now() < ends {
        rounds += 1;
        let place = Place::new();
        place.add(&IDS);
        let journals = place.world.path("journals");
        fs::create_dir(&journals).unwrap();
        let tormented = torment(&place, &journals, &mut numbers, Instant::now() + ROUND);
        (kills, stops) = (kills + tormented.0, stops + tormented.1);
        let journals = fs::read_dir(&journals).unwrap();
        let calls: Vec<Call> = journals
            .flat_map(|entry| calls(&entry.unwrap().path()))
            .collect();
        // The repair finishes the changes of killed workers.
        let repaired = place.board().repair().unwrap();
        assert!(
            repaired.findings.iter().all(|found| found.repaired),
            "seed {seed}: {repaired:?}"
        );
        assert_eq!(place.board().verify().unwrap().findings, [], "seed {seed}");
        judge(&place.root());
        let seen = Seen::on(&place.root());
        if let Err(problem) = check(&calls, &seen) {
            panic!("seed {seed}, round {rounds}: {problem}");
        }
        all += calls.len();
    }
    tell(format!(
        "board campaign: {all} operations in {rounds} rounds, {kills} kills, {stops} stops, seed {seed}"
    ));
}

/// The checker finds every kind of fault.
#[test]
fn the_checker_of_the_campaign_finds_a_lost_note_a_second_holder_and_an_event_too_many() {
    let claimed = |begun: u64, token: u64| Call {
        begun,
        work: Work::Claim("a".into()),
        came: Came::Acknowledged(begun + 1, Some(("a".into(), token))),
    };
    let note = |came: Came| Call {
        begun: 0,
        work: Work::Note("a".into(), "x".into()),
        came,
    };
    let told = || Came::Acknowledged(1, None);
    let seen = |notes: Value, kinds: &[&str]| Seen {
        issues: [("a".to_owned(), serde_json::json!({"notes": notes}))].into(),
        deleted: BTreeSet::new(),
        events: ["issue_created"]
            .iter()
            .chain(kinds)
            .map(|kind| ((*kind).to_owned(), "a".to_owned()))
            .collect(),
    };
    let noted = || serde_json::json!([{"text": "x"}]);
    let none = || serde_json::json!([]);
    for (calls, seen, problem) in [
        (vec![note(told())], seen(noted(), &["issue_noted"]), None),
        (vec![note(Came::Unknown)], seen(none(), &[]), None),
        (
            vec![note(told())],
            seen(none(), &["issue_noted"]),
            Some("the note x of a: 0"),
        ),
        (
            vec![note(told())],
            seen(noted(), &[]),
            Some("issue_noted of a: 0"),
        ),
        (
            vec![note(Came::Refused)],
            seen(noted(), &["issue_noted"]),
            Some("issue_noted of a: 1"),
        ),
        (
            vec![claimed(0, 1), claimed(1000, 2)],
            seen(none(), &["issue_claimed"; 2]),
            None,
        ),
        (
            vec![claimed(0, 1), claimed(500, 2)],
            seen(none(), &["issue_claimed"; 2]),
            Some("two have a"),
        ),
        (
            vec![claimed(0, 2), claimed(1000, 1)],
            seen(none(), &["issue_claimed"; 2]),
            Some("go back"),
        ),
    ] {
        let found = check(&calls, &seen).err().unwrap_or_default();
        assert_eq!(found.is_empty(), problem.is_none(), "{calls:?}: {found}");
        assert!(found.contains(problem.unwrap_or_default()), "{found}");
    }
}
