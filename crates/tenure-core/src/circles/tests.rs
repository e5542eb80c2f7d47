//! Random lines, compared with a plain oracle; and the words of a circle.

use super::*;

/// Random numbers that a seed determines.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }
}

fn id(name: String) -> LeaseId {
    LeaseId::parse(&name).unwrap()
}

fn session(number: usize) -> SessionId {
    SessionId::parse(&format!("s{number}")).unwrap()
}

fn owner(number: usize) -> Owner {
    Owner::parse(&format!("o{number}")).unwrap()
}

fn lasting(numbers: &mut Numbers) -> Lasting {
    [Lasting::No, Lasting::Person, Lasting::Automated][numbers.below(3)]
}

/// Three resources, a few holders and waiters, of sessions and owners that meet again and again.
fn random_lines(numbers: &mut Numbers) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut leases = Vec::new();
    for resource in 0..3 {
        let mut holders = Vec::new();
        for holder in 0..numbers.below(3) {
            let lease = id(format!("h{resource}{holder}"));
            leases.push(lease.clone());
            let who = numbers.below(4);
            holders.push(Holds {
                lease,
                session: session(who),
                owner: owner(who % 3),
                mode: Mode::ALL[numbers.below(3)],
                lasting: numbers.one_in(2),
            });
        }
        lines.push(Line {
            resource: Resource::parse(&format!("r{resource}")).unwrap(),
            holders,
            waiters: Vec::new(),
        });
    }
    for line in &mut lines {
        for waiter in 0..numbers.below(3) {
            let upgrades = numbers.one_in(6) && !line.holders.is_empty() && waiter == 0;
            let who = numbers.below(4);
            let capacity = numbers
                .one_in(8)
                .then(|| 1 + u32::try_from(numbers.below(2)).unwrap());
            let ancestors = leases.iter().filter(|_| numbers.one_in(8)).cloned();
            let ancestors = ancestors.collect();
            line.waiters.push(Waits {
                lease: match upgrades {
                    true => line.holders[0].lease.clone(),
                    false => id(format!("w{}{waiter}", line.resource.id())),
                },
                session: session(who),
                owner: owner(who % 3),
                want: match upgrades {
                    true => Want::Upgrade,
                    false => Want::Lease {
                        mode: Mode::ALL[numbers.below(3)],
                        capacity,
                    },
                },
                standing: Standing {
                    ancestors,
                    lasting: lasting(numbers),
                    searches: true,
                },
            });
        }
    }
    lines
}

/// Returns all waiters, each with its line and its place in it.
fn waiters(lines: &[Line]) -> Vec<(&Line, usize, &Waits)> {
    let of = |line: &'_ Line| line.waiters.len();
    let places = lines
        .iter()
        .flat_map(|line| (0..of(line)).map(move |at| (line, at)));
    places
        .map(|(line, at)| (line, at, &line.waiters[at]))
        .collect()
}

/// The oracle, written from the words of the module alone. Returns the owners of all that is in the
/// way of the waiter `from` and goes away only after the waiter `to` is served.
fn waits_for(lines: &[Line], people: bool, from: usize, to: usize) -> Vec<Owner> {
    let all = waiters(lines);
    let (line, at, waiter) = all[from];
    let other = all[to].2;
    let one_owner = |other: &Waits, theirs: &Owner| {
        let counts = match other.standing.lasting {
            Lasting::Automated => true,
            Lasting::Person => people,
            Lasting::No => false,
        };
        counts && other.owner == *theirs
    };
    let excludes = |mode: Mode| match waiter.want {
        Want::Upgrade => true,
        Want::Lease {
            mode: own,
            capacity: None,
        } => own.conflicts_with(mode),
        Want::Lease {
            capacity: Some(places),
            ..
        } => places == 1,
    };
    let mut owners = Vec::new();
    for held in &line.holders {
        let is_its = other.session == held.session
            || other.lease == held.lease
            || other.standing.ancestors.contains(&held.lease)
            || (held.lasting && one_owner(other, &held.owner));
        if held.lease != waiter.lease && excludes(held.mode) && is_its {
            owners.push(held.owner.clone());
        }
    }
    for ahead in &line.waiters[..at] {
        let merged = one_owner(other, &ahead.owner) && one_owner(ahead, &other.owner);
        if excludes(ahead.want.mode()) && (other.session == ahead.session || merged) {
            owners.push(ahead.owner.clone());
        }
    }
    owners
}

/// Returns true if a waiter reaches itself, and on the way a waiter that does not count as one with
/// it: by closure, without any search.
fn is_in_a_circle(lines: &[Line], people: bool, start: usize) -> bool {
    let all = waiters(lines);
    let own = all[start].2;
    let counts = |one: &Waits| match one.standing.lasting {
        Lasting::Automated => true,
        Lasting::Person => people,
        Lasting::No => false,
    };
    let is_one = |other: &Waits| {
        let owner = own.owner == other.owner && counts(own) && counts(other);
        own.session == other.session || owner
    };
    // `reached[waiter][met]`, where `met` says that another waiter was met on the way.
    let mut reached = vec![[false; 2]; all.len()];
    for _ in 0..=2 * all.len() {
        for from in 0..all.len() {
            for met in [false, true] {
                let begins = from == start && !met;
                // The start is where a path begins and ends, and nowhere between.
                if !(begins || from != start && reached[from][usize::from(met)]) {
                    continue;
                }
                for (to, (_, _, waiter)) in all.iter().enumerate() {
                    for _ in waits_for(lines, people, from, to) {
                        let other = met || !is_one(waiter);
                        reached[to][usize::from(other)] = true;
                    }
                }
            }
        }
    }
    reached[start][1]
}

fn edges(lines: &[Line]) -> usize {
    let count = waiters(lines).len();
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    pairs
        .map(|(from, to)| waits_for(lines, true, from, to).len())
        .sum()
}

#[test]
fn random_lines_have_the_circles_that_a_plain_closure_finds() {
    let (mut found, mut told) = (0, 0);
    for seed in 0..20_000 {
        let lines = random_lines(&mut Numbers(seed));
        // Every edge is followed at most twice: before and after another owner was met.
        if 2 * edges(&lines) > EDGES_MAX {
            continue;
        }
        for (start, (_, _, waiter)) in waiters(&lines).into_iter().enumerate() {
            if waiters(&lines)
                .iter()
                .filter(|(_, _, other)| other.lease == waiter.lease)
                .count()
                > 1
            {
                continue;
            }
            let circle = find(&lines, &waiter.lease);
            let certain = circle.as_ref().is_some_and(|circle| circle.is_certain);
            let is_certain = is_in_a_circle(&lines, false, start);
            assert_eq!(certain, is_certain, "seed {seed}: {lines:#?}");
            // If requests of people count as one, a certain circle may be a loop of one owner.
            let any = is_certain || is_in_a_circle(&lines, true, start);
            assert_eq!(circle.is_some(), any, "seed {seed}: {lines:#?}");
            if let Some(circle) = circle {
                is_closed(&circle, &waiter.lease);
                found += usize::from(circle.is_certain);
                told += usize::from(!circle.is_certain);
            }
        }
    }
    assert!(
        found > 500 && told > 500,
        "{found} are certain, {told} are not"
    );
}

/// It begins at the request, and names more than one waiter.
fn is_closed(circle: &Circle, start: &LeaseId) {
    assert_eq!(circle.links[0].waiter.lease, *start);
    assert!(circle.links.len() > 1, "{circle}");
}

/// Two automated owners, or two people, who each hold what the other waits for.
fn crossed(kind: Lasting) -> Vec<Line> {
    let line = |name: &str, holder: usize, waiter: usize| Line {
        resource: Resource::parse(name).unwrap(),
        holders: vec![Holds {
            lease: id(format!("held-{name}")),
            session: session(holder + 10),
            owner: owner(holder),
            mode: Mode::Write,
            lasting: true,
        }],
        waiters: vec![Waits {
            lease: id(format!("wanted-{name}")),
            session: session(waiter),
            owner: owner(waiter),
            want: Want::Lease {
                mode: Mode::Write,
                capacity: None,
            },
            standing: Standing {
                lasting: kind,
                ..Standing::default()
            },
        }],
    };
    vec![line("a", 1, 2), line("b", 2, 1)]
}

#[test]
fn a_circle_names_every_lock_and_holder_and_what_to_release() {
    let circle = find(&crossed(Lasting::Automated), &id("wanted-a".into())).unwrap();
    assert!(circle.is_certain);
    assert_eq!(
        circle.to_string(),
        "o2 waits for name:a (write), which o1 holds as lease held-a; \
         o1 waits for name:b (write), which o2 holds as lease held-b"
    );
    assert_eq!(circle.leases_of(&owner(2)), [&id("held-b".into())]);
}

#[test]
fn a_circle_of_people_is_not_certain_and_one_of_sessions_that_only_look_alike_is_none() {
    let told = find(&crossed(Lasting::Person), &id("wanted-a".into())).unwrap();
    assert!(!told.is_certain);
    assert_eq!(find(&crossed(Lasting::No), &id("wanted-a".into())), None);
}

#[test]
fn every_circle_is_found_once() {
    assert_eq!(find_all(&crossed(Lasting::Automated)).len(), 1);
    assert_eq!(find_all(&crossed(Lasting::Person)).len(), 1);
    assert_eq!(find_all(&[]), []);
}

#[test]
fn more_edges_than_are_followed_leave_it_to_the_deadlines() {
    let mut lines = crossed(Lasting::Automated);
    let mut crowd = Vec::new();
    for number in 0..EDGES_MAX {
        crowd.push(Waits {
            lease: id(format!("c{number}")),
            session: session(100 + number),
            owner: owner(100 + number),
            ..lines[0].waiters[0].clone()
        });
    }
    let last = lines[0].waiters.pop().unwrap();
    lines[0].waiters = crowd;
    lines[0].waiters.push(last);
    assert_eq!(find(&lines, &id("wanted-a".into())), None);
}
