//! One client process.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::*;

pub(super) struct Client {
    pub(super) protocol: Protocol,
    pub(super) settings: Settings,
    pub(super) answers: Vec<(SectionId, Answer)>,
    pub(super) log: Vec<(Instant, Action)>,
    pub(super) states: Vec<Option<NodeState>>,
    pub(super) drained: Option<ShutdownError>,
    /// It can connect to none of these nodes.
    pub(super) is_cut_off: Vec<bool>,
    pub(super) may_read_info: bool,
    /// How much longer than others' its requests take to each node.
    pub(super) lag: Vec<Duration>,
    pub(super) paused_until: Instant,
    /// How often it has been restarted.
    pub(super) incarnation: u64,
    wall_micros: Arc<AtomicU64>,
    has_wall_clock: bool,
    number: usize,
}

impl Client {
    pub(super) fn new(number: usize, nodes: usize, settings: Settings, now: Instant) -> Self {
        // A clock that stands still, so that every token is a matter of counters.
        let wall_micros = Arc::new(AtomicU64::new(1));
        Self {
            protocol: protocol(number, 0, nodes, settings, &wall_micros, now),
            settings,
            answers: Vec::new(),
            log: Vec::new(),
            states: vec![None; nodes],
            drained: None,
            is_cut_off: vec![false; nodes],
            may_read_info: true,
            lag: vec![Duration::ZERO; nodes],
            paused_until: now,
            incarnation: 0,
            wall_micros,
            has_wall_clock: false,
            number,
        }
    }

    pub(super) fn tick(&self, now: Instant) {
        if self.has_wall_clock {
            let micros = now.as_nanos() / 1_000;
            self.wall_micros.store(micros, Ordering::Relaxed);
        }
    }

    pub(super) fn note(&mut self, action: &Action, now: Instant) {
        self.log.push((now, action.clone()));
        match action {
            Action::Answer { section, answer } => self.answers.push((*section, answer.clone())),
            Action::NodeChanged { node, state } => self.states[node.0] = Some(state.clone()),
            Action::Drained(left) => self.drained = Some(*left),
            _ => {}
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        let wakeup = self.protocol.next_wakeup()?;
        Some(wakeup.max(self.paused_until))
    }

    pub(super) fn sends(&self, kind: impl Fn(&Request) -> bool) -> Vec<(Instant, NodeId)> {
        let sends = self.log.iter().filter_map(|(at, action)| match action {
            Action::Send(order) if kind(&order.body) => Some((*at, order.node)),
            _ => None,
        });
        sends.collect()
    }

    pub(super) fn state(&self, node: usize) -> NodeState {
        let state = self.states[node].clone();
        state.expect("every node has a state once something is known of it")
    }
}

fn protocol(
    number: usize,
    incarnation: u64,
    nodes: usize,
    settings: Settings,
    wall_micros: &Arc<AtomicU64>,
    now: Instant,
) -> Protocol {
    let mut state = (u128::from(incarnation) << 64) + number as u128 + 1;
    let random = move || {
        state = state
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(1);
        // The low bits of the state itself repeat soon.
        state.rotate_right(64) ^ state.rotate_right(29)
    };
    let wall_micros = Arc::clone(wall_micros);
    let env = Env {
        random: Box::new(random),
        wall_micros: Box::new(move || wall_micros.load(Ordering::Relaxed)),
    };
    Protocol::new(nodes, settings, env, now)
}

/// A lock with two permits.
pub(crate) const POOL: &str = "permits";

/// Both permits of it.
pub(crate) const WHOLE_POOL: &str = "whole permits";

/// What a test calls `shared a` is the lock `a`, which is shared.
pub(crate) fn member(name: &str) -> Member {
    let shared = name.strip_prefix("shared ");
    let whole = name.strip_prefix("whole ");
    Member {
        key: shared.or(whole).unwrap_or(name).into(),
        permits: 2 * u32::from(name.ends_with(POOL)),
        weight: 1 + u32::from(whole.is_some()),
        mode: shared.map_or(Mode::Exclusive, |_| Mode::Shared),
    }
}

/// One key is asked for as such.
pub(crate) fn question(section: SectionId, keys: &[&str], params: LockParams) -> Event {
    match keys {
        &[key] if key != WHOLE_POOL => Event::Ask {
            section,
            key: key.into(),
            params: LockParams {
                permits: 2 * u32::from(key == POOL),
                ..params
            },
        },
        keys => Event::AskAll {
            section,
            members: keys.iter().map(|key| member(key)).collect(),
            params,
        },
    }
}

/// A client, together with the world that it lives in.
pub(crate) struct Process<'world> {
    world: &'world mut World,
    number: usize,
}

impl<'world> Process<'world> {
    pub(super) const fn new(world: &'world mut World, number: usize) -> Self {
        Self { world, number }
    }

    fn me(&mut self) -> &mut Client {
        &mut self.world.clients[self.number]
    }

    pub(crate) fn handle(&mut self, event: Event) {
        self.world.handle(self.number, event);
    }

    pub(crate) fn ask(&mut self, section: u64, key: &str, params: LockParams) {
        let (section, key) = (SectionId(section), Arc::from(key));
        self.handle(Event::Ask {
            section,
            key,
            params,
        });
    }

    pub(crate) fn ask_all(&mut self, section: u64, keys: &[&str], params: LockParams) {
        self.handle(question(SectionId(section), keys, params));
    }

    /// For one of so many permits.
    pub(crate) fn ask_permit(&mut self, section: u64, key: &str, permits: u32, params: LockParams) {
        let (section, key) = (SectionId(section), Arc::from(key));
        let params = LockParams { permits, ..params };
        self.handle(Event::Ask {
            section,
            key,
            params,
        });
    }

    /// For so many of so many permits at once.
    pub(crate) fn ask_weight(&mut self, section: u64, of: (u32, u32), params: LockParams) {
        let (section, (weight, permits)) = (SectionId(section), of);
        let members = vec![Member {
            key: "k".into(),
            permits,
            weight,
            mode: Mode::Exclusive,
        }];
        self.handle(Event::AskAll {
            section,
            members,
            params,
        });
    }

    pub(crate) fn end(&mut self, section: u64) {
        let (section, report) = (SectionId(section), false);
        self.handle(Event::End { section, report });
    }

    pub(crate) fn release(&mut self, section: u64) {
        let (section, report) = (SectionId(section), true);
        self.handle(Event::End { section, report });
    }

    pub(crate) fn extend(&mut self, section: u64) {
        let (section, lease) = (SectionId(section), None);
        self.handle(Event::Extend { section, lease });
    }

    pub(crate) fn extend_to(&mut self, section: u64, length: Duration) {
        let (section, guard_band) = (SectionId(section), default_guard_band(length));
        let lease = Some(LeaseParams { length, guard_band });
        self.handle(Event::Extend { section, lease });
    }

    pub(crate) fn share(&mut self, section: u64) {
        let section = SectionId(section);
        self.handle(Event::Share { section });
    }

    /// The holder says something to those who look at the lock.
    pub(crate) fn note(&mut self, section: u64, note: &str) {
        let (section, note) = (SectionId(section), note.into());
        self.handle(Event::Note { section, note });
    }

    pub(crate) fn shut_down(&mut self, timeout: Duration, abort_holders: bool) {
        self.handle(Event::Shutdown {
            timeout,
            abort_holders,
        });
    }

    /// A node says that this key, or any key, may have changed.
    pub(crate) fn hear_of_change(&mut self, node: usize, key: Option<&str>) {
        let (node, key) = (NodeId(node), key.map(Arc::from));
        self.handle(Event::Changed { node, key });
    }

    /// Runs until the caller of `section` has been answered.
    pub(crate) fn answer(&mut self, section: u64) -> Answer {
        let end = self.world.now.after(PATIENCE);
        loop {
            if let Some(answer) = self.answered(section) {
                return answer;
            }
            assert!(self.world.now < end, "section {section} is not answered");
            assert!(self.world.step(), "section {section} is never answered");
        }
    }

    /// The next answer to the caller of `section`, if there is one by now.
    pub(crate) fn answered(&mut self, section: u64) -> Option<Answer> {
        let answers = &mut self.me().answers;
        let position = answers.iter().position(|(id, _)| id.0 == section)?;
        Some(answers.remove(position).1)
    }

    /// The next answer to one of these sections, if there is one by now.
    pub(super) fn next_of<T>(&mut self, of: &BTreeMap<(usize, u64), T>) -> Option<(u64, Answer)> {
        let number = self.number;
        let answers = &mut self.me().answers;
        let is_it = |(section, _): &(SectionId, _)| of.contains_key(&(number, section.0));
        let (section, answer) = answers.remove(answers.iter().position(is_it)?);
        Some((section.0, answer))
    }

    pub(crate) fn granted(&mut self, section: u64) -> (Instant, Token) {
        match self.answer(section) {
            Answer::Granted {
                deadline, token, ..
            } => (deadline, token),
            other => panic!("section {section} is not granted: {other:?}"),
        }
    }

    pub(crate) fn refusal(&mut self, section: u64) -> Refusal {
        match self.answer(section) {
            Answer::Refused(refusal) => refusal,
            other => panic!("section {section} is not refused: {other:?}"),
        }
    }

    pub(crate) fn refused(&mut self, section: u64) -> Cause {
        self.refusal(section).cause
    }

    /// Asks for a lock, and gets it. The deadline and the token.
    pub(crate) fn lock(&mut self, section: u64, key: &str, params: LockParams) -> (Instant, Token) {
        self.ask(section, key, params);
        self.granted(section)
    }

    /// Is refused because others have the lock. For how long, if that is known.
    pub(crate) fn contended(&mut self, section: u64) -> Option<Duration> {
        match self.refused(section) {
            Cause::Contended { retry_after } => retry_after,
            other => panic!("section {section} is refused for {other:?}"),
        }
    }

    /// Is refused because nodes that have lost their memory do not vote.
    pub(crate) fn quarantined(&mut self, section: u64) {
        let cause = self.refused(section);
        let is_it = matches!(cause, Cause::Quarantined { .. });
        assert!(is_it, "section {section} is refused for {cause:?}");
    }

    /// The new deadline.
    pub(crate) fn extended(&mut self, section: u64) -> Instant {
        match self.answer(section) {
            Answer::Extended { deadline } => deadline,
            other => panic!("section {section} is not extended: {other:?}"),
        }
    }

    pub(crate) fn lost(&mut self, section: u64) {
        let answer = self.answer(section);
        let is_lost = matches!(answer, Answer::Over(Loss::Lost { .. }));
        assert!(is_lost, "section {section}: {answer:?}");
    }

    pub(crate) fn expired(&mut self, section: u64) {
        let answer = self.answer(section);
        let is_expired = matches!(answer, Answer::Over(Loss::Expired { .. }));
        assert!(is_expired, "section {section}: {answer:?}");
    }

    pub(crate) fn answers(&mut self) -> &[(SectionId, Answer)] {
        &self.me().answers
    }

    pub(crate) fn sends(&mut self, kind: impl Fn(&Request) -> bool) -> Vec<(Instant, NodeId)> {
        self.me().sends(kind)
    }

    pub(crate) fn under_replicated(&mut self) -> usize {
        self.me().protocol.under_replicated()
    }

    pub(crate) fn state(&mut self, node: usize) -> NodeState {
        self.me().state(node)
    }

    pub(crate) fn drained(&mut self) -> Option<ShutdownError> {
        self.me().drained
    }

    pub(crate) fn break_connection(&mut self, node: usize) {
        self.world.break_connection(self.number, node);
    }

    /// It cannot connect to this node any more, as the others can.
    pub(crate) fn cut_off(&mut self, node: usize) {
        self.me().is_cut_off[node] = true;
        self.break_connection(node);
    }

    pub(crate) fn reconnect(&mut self, node: usize) {
        self.me().is_cut_off[node] = false;
    }

    /// It is a user without the right to `INFO`.
    pub(crate) fn forbid_info(&mut self) {
        self.me().may_read_info = false;
    }

    /// Its requests take so much longer to this node.
    pub(crate) fn set_lag(&mut self, node: usize, lag: Duration) {
        self.me().lag[node] = lag;
    }

    /// Its wall clock, which stands still in this world, goes like those of the nodes.
    pub(crate) fn start_wall_clock(&mut self) {
        self.me().has_wall_clock = true;
    }

    /// Nothing is known of any key any more.
    pub(crate) fn is_idle(&mut self) -> bool {
        let state = format!("{:?}", self.me().protocol);
        [
            "entries: {}, ids: {}",
            "compounds: {}, parts: {}",
            "moves: []",
        ]
        .iter()
        .all(|none| state.contains(none))
            && state.matches("sections: {}").count() == 1
    }

    pub(crate) fn set_wall_micros(&mut self, micros: u64) {
        self.me().wall_micros.store(micros, Ordering::Relaxed);
    }

    /// Nothing reaches the process, and none of its timers wakes, for so long.
    pub(crate) fn pause_for(&mut self, time: Duration) {
        let until = self.world.now.after(time);
        self.me().paused_until = until;
    }

    /// The same, and what it was about to send is sent after that.
    pub(crate) fn stop_for(&mut self, time: Duration) {
        self.world.put_off_requests(self.number, time);
        self.pause_for(time);
    }

    /// Of how many keys anything is known.
    pub(crate) fn keys(&mut self) -> usize {
        let state = format!("{:?}", self.me().protocol);
        state.matches("Entry {").count()
    }

    /// Ends the process, without a release, and starts another one in its place.
    pub(crate) fn restart(&mut self) {
        let (now, nodes) = (self.world.now, self.world.nodes.len());
        let me = self.me();
        let incarnation = me.incarnation + 1;
        let protocol = protocol(
            me.number,
            incarnation,
            nodes,
            me.settings,
            &me.wall_micros,
            now,
        );
        *me = Client {
            protocol,
            answers: Vec::new(),
            log: Vec::new(),
            states: vec![None; nodes],
            drained: None,
            is_cut_off: me.is_cut_off.clone(),
            may_read_info: me.may_read_info,
            lag: me.lag.clone(),
            paused_until: now,
            incarnation,
            settings: me.settings,
            wall_micros: Arc::clone(&me.wall_micros),
            has_wall_clock: me.has_wall_clock,
            number: me.number,
        };
        let number = self.number;
        for node in &mut self.world.nodes {
            node.connections.remove(&number);
        }
        self.world.carry_out(number);
    }
}
