//! A tree made into a program.
//!
//! Invariant: a program has at most [`MAX_COST`] instructions, a counted loop over one class counting as many as it could
//! be written out to; addresses fit their type. Tested through the engine; the shapes of small programs and the limits are
//! tested here.

use std::collections::HashMap;
use std::sync::Arc;

use super::Dialect;
use super::ast::{Assertion, Node};
use super::charset::{self, CharSet, Class};
use super::program::{
    Address, Behind, BehindStep, Filter, Instruction, Mode, Program, Run, Slot, Split,
};
use crate::error::{Error, Result};

/// The most instructions a program may have after counted repeats are written out.
const MAX_COST: usize = 10_000;
/// The most atomic groups one inside another.
const MAX_ATOMIC: u8 = 5;
/// The most alternatives that are chosen between by the first character at once.
const MAX_ROOTS: usize = 64;
/// How far the first characters of a branch are followed before giving up on a filter.
const MAX_FIRST_STEPS: usize = 200;

/// Compiles a simplified and checked tree.
pub(crate) fn compile(node: &Node, dialect: Dialect) -> Result<Program> {
    let mut compiler = Compiler::default();
    let roots = match node {
        Node::Alternation(nodes) => compiler.roots(nodes)?,
        node => compiler.roots(std::slice::from_ref(node))?,
    };
    compiler.fill_filters();
    let mut root_ascii = Box::new([0u64; 128]);
    let (mut root_wide, mut root_end) = (0, 0);
    for (number, &root) in roots.iter().enumerate() {
        let filter = compiler.filter(root);
        let bit = 1u64 << number;
        for (byte, mask) in root_ascii.iter_mut().enumerate() {
            if filter.empty || filter.ascii >> byte & 1 == 1 {
                *mask |= bit;
            }
        }
        if filter.empty || filter.wide {
            root_wide |= bit;
        }
        if filter.empty {
            root_end |= bit;
        }
    }
    let asks = |wanted: &[Assertion]| compiler.assertions.iter().any(|a| wanted.contains(a));
    Ok(Program {
        word: asks(&[Assertion::WordBoundary, Assertion::NotWordBoundary])
            .then(|| Class::new(&charset::word(dialect))),
        needs_final_newlines: asks(&[Assertion::TextEndOrNewlines]),
        code: compiler.code,
        classes: compiler.classes,
        slots: compiler.slots,
        behinds: compiler.behinds,
        roots,
        root_ascii,
        root_wide,
        root_end,
    })
}

#[derive(Default)]
struct Compiler {
    code: Vec<Instruction>,
    cost: usize,
    classes: Vec<Class>,
    class_numbers: HashMap<Arc<CharSet>, u32>,
    slots: Vec<Slot>,
    behinds: Vec<Behind>,
    assertions: Vec<Assertion>,
    depth: u8,
    in_look_ahead: bool,
}

impl Compiler {
    fn roots(&mut self, nodes: &[Node]) -> Result<Vec<Address>> {
        let mut roots = Vec::new();
        let (singles, rest) = if nodes.len() > MAX_ROOTS {
            nodes.split_at(MAX_ROOTS - 1)
        } else {
            (nodes, &[] as &[Node])
        };
        for node in singles {
            roots.push(self.here());
            self.node(node)?;
            self.emit(Instruction::Match)?;
        }
        if !rest.is_empty() {
            roots.push(self.here());
            self.alternation(rest)?;
            self.emit(Instruction::Match)?;
        }
        Ok(roots)
    }

    fn here(&self) -> Address {
        // MAX_COST is below 2^16.
        Address::try_from(self.code.len()).unwrap_or(Address::MAX)
    }

    fn emit(&mut self, instruction: Instruction) -> Result<Address> {
        self.charge(1)?;
        let address = self.here();
        self.code.push(instruction);
        Ok(address)
    }

    fn charge(&mut self, cost: usize) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > MAX_COST {
            return Err(Error::Unsupported {
                what: format!("a regular expression of more than {MAX_COST} instructions"),
            });
        }
        Ok(())
    }

    fn class(&mut self, set: &Arc<CharSet>) -> u32 {
        if let Some(&number) = self.class_numbers.get(set) {
            return number;
        }
        let number = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        self.classes.push(Class::new(set));
        self.class_numbers.insert(Arc::clone(set), number);
        number
    }

    fn slot(&mut self) -> u32 {
        let number = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot {
            depth: self.depth,
            in_look_ahead: self.in_look_ahead,
        });
        number
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        if let Some(set) = node.as_class() {
            let class = self.class(&set);
            return self.emit(Instruction::Class(class)).map(drop);
        }
        match node {
            Node::Empty | Node::Literal { .. } | Node::Class(_) => Ok(()),
            Node::Concat(nodes) => nodes.iter().try_for_each(|node| self.node(node)),
            Node::Alternation(nodes) => self.alternation(nodes),
            Node::Repeat {
                body,
                min,
                max,
                greedy,
            } => self.repeat(body, *min, *max, *greedy),
            Node::Atomic(body) => self.atomic(body),
            Node::LookAhead { negative, body } => self.look_ahead(*negative, body),
            Node::LookBehind { negative, body } => self.look_behind(*negative, body),
            Node::Assertion(assertion) => {
                self.assertions.push(*assertion);
                self.emit(Instruction::Assertion(*assertion)).map(drop)
            }
        }
    }

    fn alternation(&mut self, nodes: &[Node]) -> Result<()> {
        let Some((last, others)) = nodes.split_last() else {
            return Ok(());
        };
        let mut jumps = Vec::with_capacity(others.len());
        for node in others {
            let split = self.split(false)?;
            self.node(node)?;
            jumps.push(self.emit(Instruction::Jump(0))?);
            self.set_ways(split, split + 1, self.here());
        }
        self.node(last)?;
        let end = self.here();
        for jump in jumps {
            if let Some(Instruction::Jump(target)) = self.code.get_mut(usize::from(jump)) {
                *target = end;
            }
        }
        Ok(())
    }

    fn split(&mut self, in_loop: bool) -> Result<Address> {
        let slot = self.slot();
        self.emit(Instruction::Split(Box::new(Split {
            first: 0,
            second: 0,
            first_filter: Filter::ANYTHING,
            second_filter: Filter::ANYTHING,
            in_loop,
            slot,
        })))
    }

    fn set_ways(&mut self, split: Address, first: Address, second: Address) {
        if let Some(Instruction::Split(split)) = self.code.get_mut(usize::from(split)) {
            split.first = first;
            split.second = second;
        }
    }

    fn repeat(&mut self, body: &Node, min: u32, max: Option<u32>, greedy: bool) -> Result<()> {
        let mode = if greedy { Mode::Greedy } else { Mode::Lazy };
        match body.as_class() {
            Some(set) if greedy || max.is_none() => self.run(&set, min, max, mode),
            _ => self.general_repeat(body, min, max, greedy),
        }
    }

    /// A loop over one class: what it must take, then what it may.
    fn run(&mut self, set: &Arc<CharSet>, min: u32, max: Option<u32>, mode: Mode) -> Result<()> {
        let class = self.class(set);
        for _ in 0..min {
            self.emit(Instruction::Class(class))?;
        }
        let more = match max {
            None => u32::MAX,
            Some(max) => max.saturating_sub(min),
        };
        if more == 0 {
            return Ok(());
        }
        if more != u32::MAX {
            self.charge(more as usize)?;
        }
        let slot = self.slot();
        self.emit(Instruction::Run(Run {
            class,
            max: more,
            mode,
            slot,
        }))
        .map(drop)
    }

    fn general_repeat(
        &mut self,
        body: &Node,
        min: u32,
        max: Option<u32>,
        greedy: bool,
    ) -> Result<()> {
        let ways = |inside, outside| {
            if greedy {
                (inside, outside)
            } else {
                (outside, inside)
            }
        };
        let Some(max) = max else {
            for _ in 1..min {
                self.node(body)?;
            }
            if min == 0 {
                let split = self.split(true)?;
                self.node(body)?;
                self.emit(Instruction::Jump(split))?;
                let (first, second) = ways(split + 1, self.here());
                self.set_ways(split, first, second);
            } else {
                let start = self.here();
                self.node(body)?;
                let split = self.split(true)?;
                let (first, second) = ways(start, split + 1);
                self.set_ways(split, first, second);
            }
            return Ok(());
        };
        for _ in 0..min {
            self.node(body)?;
        }
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.split(false)?);
            self.node(body)?;
        }
        let end = self.here();
        for split in splits {
            let (first, second) = ways(split + 1, end);
            self.set_ways(split, first, second);
        }
        Ok(())
    }

    fn atomic(&mut self, body: &Node) -> Result<()> {
        if let Node::Repeat {
            body,
            min,
            max,
            greedy: true,
        } = body
            && let Some(set) = body.as_class()
        {
            return self.run(&set, *min, *max, Mode::Possessive);
        }
        if self.depth >= MAX_ATOMIC {
            return Err(Error::Unsupported {
                what: "a regular expression with so many atomic groups one inside another"
                    .to_owned(),
            });
        }
        let start = self.emit(Instruction::Atomic { depth: self.depth })?;
        let slots = self.slots.len();
        self.depth += 1;
        self.node(body)?;
        self.depth -= 1;
        if self.slots.len() == slots {
            // Nothing inside has a choice: the group does nothing.
            if let Some(instruction) = self.code.get_mut(usize::from(start)) {
                *instruction = Instruction::Jump(start + 1);
            }
            return Ok(());
        }
        self.emit(Instruction::AtomicEnd).map(drop)
    }

    fn look_ahead(&mut self, negative: bool, body: &Node) -> Result<()> {
        if let Some(set) = body.as_class() {
            let class = self.class(&set);
            return self
                .emit(Instruction::LookAheadClass { class, negative })
                .map(drop);
        }
        let start = self.emit(Instruction::LookAhead { negative, after: 0 })?;
        let outer = (self.depth, self.in_look_ahead);
        (self.depth, self.in_look_ahead) = (0, true);
        self.node(body)?;
        (self.depth, self.in_look_ahead) = outer;
        self.emit(Instruction::LookAheadEnd)?;
        let end = self.here();
        if let Some(Instruction::LookAhead { after, .. }) = self.code.get_mut(usize::from(start)) {
            *after = end;
        }
        Ok(())
    }

    fn look_behind(&mut self, negative: bool, body: &Node) -> Result<()> {
        let mut code = Vec::new();
        self.behind_node(body, &mut code)?;
        self.behind_step(BehindStep::Match, &mut code)?;
        let single = body.as_class().map(|set| self.class(&set));
        let longest = usize::try_from(body.longest().unwrap_or(0)).unwrap_or(usize::MAX);
        let behind = u32::try_from(self.behinds.len()).unwrap_or(u32::MAX);
        self.behinds.push(Behind {
            code,
            longest,
            single,
        });
        self.emit(Instruction::LookBehind { behind, negative })
            .map(drop)
    }

    fn behind_step(&mut self, step: BehindStep, code: &mut Vec<BehindStep>) -> Result<usize> {
        self.charge(1)?;
        code.push(step);
        Ok(code.len() - 1)
    }

    /// Compiles a node of a look-behind; greed does not matter there, only whether there is a match.
    fn behind_node(&mut self, node: &Node, code: &mut Vec<BehindStep>) -> Result<()> {
        let address = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        if let Some(set) = node.as_class() {
            let class = self.class(&set);
            self.behind_step(BehindStep::Class(class), code)?;
            return Ok(());
        }
        match node {
            Node::Concat(nodes) => {
                for node in nodes.iter().rev() {
                    self.behind_node(node, code)?;
                }
            }
            Node::Alternation(nodes) => {
                let Some((last, others)) = nodes.split_last() else {
                    return Ok(());
                };
                let mut jumps = Vec::with_capacity(others.len());
                for node in others {
                    let split = self.behind_step(BehindStep::Jump(0), code)?;
                    self.behind_node(node, code)?;
                    jumps.push(self.behind_step(BehindStep::Jump(0), code)?);
                    let ways = BehindStep::Split(address(split + 1), address(code.len()));
                    set_step(code, split, ways);
                }
                self.behind_node(last, code)?;
                let end = address(code.len());
                for jump in jumps {
                    set_step(code, jump, BehindStep::Jump(end));
                }
            }
            Node::Repeat { body, min, max, .. } => {
                for _ in 0..*min {
                    self.behind_node(body, code)?;
                }
                let mut splits = Vec::new();
                for _ in *min..max.unwrap_or(*min) {
                    splits.push(self.behind_step(BehindStep::Jump(0), code)?);
                    self.behind_node(body, code)?;
                }
                let end = address(code.len());
                for split in splits {
                    set_step(code, split, BehindStep::Split(address(split + 1), end));
                }
            }
            Node::Assertion(assertion) => {
                self.assertions.push(*assertion);
                self.behind_step(BehindStep::Assertion(*assertion), code)?;
            }
            // The checks let nothing else in.
            _ => {}
        }
        Ok(())
    }

    /// Works out what each way of each choice can start with.
    fn fill_filters(&mut self) {
        for index in 0..self.code.len() {
            let Some(Instruction::Split(split)) = self.code.get(index) else {
                continue;
            };
            let filters = (self.filter(split.first), self.filter(split.second));
            if let Some(Instruction::Split(split)) = self.code.get_mut(index) {
                (split.first_filter, split.second_filter) = filters;
            }
        }
    }

    /// What the program from an address on can start with.
    fn filter(&self, address: Address) -> Filter {
        let mut filter = Filter::default();
        let mut seen = Vec::new();
        let mut pending = vec![address];
        while let Some(address) = pending.pop() {
            if seen.contains(&address) {
                continue;
            }
            seen.push(address);
            if seen.len() > MAX_FIRST_STEPS {
                return Filter::ANYTHING;
            }
            match self.code.get(usize::from(address)) {
                Some(Instruction::Class(class)) => self.admit(*class, &mut filter),
                Some(Instruction::Run(run)) => {
                    self.admit(run.class, &mut filter);
                    pending.push(address + 1);
                }
                Some(Instruction::Split(split)) => pending.extend([split.first, split.second]),
                Some(Instruction::Jump(target)) => pending.push(*target),
                Some(Instruction::LookAhead { after, .. }) => pending.push(*after),
                Some(
                    Instruction::Atomic { .. }
                    | Instruction::Assertion(_)
                    | Instruction::LookBehind { .. }
                    | Instruction::LookAheadClass { .. },
                ) => pending.push(address + 1),
                // What follows an atomic group must not decide what is tried inside it.
                Some(Instruction::AtomicEnd | Instruction::LookAheadEnd | Instruction::Match)
                | None => filter.empty = true,
            }
        }
        filter
    }

    fn admit(&self, class: u32, filter: &mut Filter) {
        if let Some(class) = self.classes.get(class as usize) {
            filter.ascii |= class.ascii();
            filter.wide |= class.has_wide();
        }
    }
}

fn set_step(code: &mut [BehindStep], index: usize, step: BehindStep) {
    if let Some(place) = code.get_mut(index) {
        *place = step;
    }
}

#[cfg(test)]
mod tests {
    use super::super::ast::simplify;
    use super::super::parse::parse;
    use super::*;

    fn compiled(pattern: &str) -> Result<Program> {
        let node = simplify(parse(pattern, Dialect::FancyRegex).unwrap());
        compile(&node, Dialect::FancyRegex)
    }

    #[test]
    fn programs_are_bounded() {
        assert!(compiled("a{10000}").is_err());
        assert!(compiled("(?:a{100}){100}").is_err());
        assert!(compiled("a{0,9990}").is_ok());
        assert!(compiled("(?:ab){0,90000}").is_err());
        assert!(compiled("(?>a|b(?>a|bc(?>a|bd(?>a|be(?>a|bf(?>a|bg))))))").is_err());
    }

    #[test]
    fn the_first_character_chooses_the_alternatives() {
        let program = compiled(r"'s|[a-z]+| ?\d|é").unwrap();
        assert_eq!(program.roots.len(), 4);
        assert_eq!(program.root_ascii[b'\'' as usize], 0b0001);
        assert_eq!(program.root_ascii[b'q' as usize], 0b0010);
        assert_eq!(program.root_ascii[b' ' as usize], 0b0100);
        assert_eq!(program.root_ascii[b'!' as usize], 0);
        assert_eq!(program.root_wide, 0b1100);
        assert_eq!(program.root_end, 0);
        let many = vec!["ab"; 100].join("|");
        assert_eq!(compiled(&many).unwrap().roots.len(), MAX_ROOTS);
    }

    #[test]
    fn a_group_without_choice_is_not_atomic() {
        let program = compiled("(?>ab)c").unwrap();
        let has_atomic =
            |i: &Instruction| matches!(i, Instruction::Atomic { .. } | Instruction::AtomicEnd);
        assert!(!program.code.iter().any(has_atomic));
    }
}
