//! The grammar of DiskSim's parameter files: blocks of `name = value`, lists, comments, and files that files source.
//!
//! ```text
//! file  = { block }
//! block = TYPE [NAME] "{" [param] { "," [param] } "}"
//! param = WORD { WORD } "=" value          the last one of a name counts
//! value = NUMBER | WORD | block | "[" [value] { "," [value] } "]"
//! ```
//!
//! `source FILE` stands for the tokens of a file: that of this path, counted from the file that names it, or one of this name beside it. A `#` where a token may start begins a comment that ends with the
//! line. Source: the DiskSim 4.0 manual (CMU-PDL-08-101, May 2008), chapter 3.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};

use lab_report::input;

/// How deep blocks and lists, and files that source files, may be nested.
const MAX_NESTING: usize = 32;

/// Where something stands, for messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct At {
    /// The file.
    pub file: Rc<Path>,
    /// Its line, from 1.
    pub line: u32,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A number with a decimal point.
    Float(f64),
    /// A name or a file name.
    Word(String),
    /// A list.
    List(Vec<(At, Value)>),
    /// A block.
    Block(Block),
}

impl Value {
    /// The whole number that it is. Some files write 0 as 0.000000.
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is small")]
    pub fn integral(&self) -> Option<i64> {
        match self {
            Value::Int(int) => Some(*int),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e15 => Some(*f as i64),
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Word(_) => "a word",
            Value::List(_) => "a list",
            Value::Block(_) => "a block",
        }
    }
}

/// A block of parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// What it describes, such as `dm_disk`.
    pub kind: String,
    /// Where it begins.
    pub at: At,
    params: Vec<Param>,
}

/// A parameter of a block.
#[derive(Clone, PartialEq, Debug)]
struct Param {
    name: String,
    at: At,
    value: Value,
    /// Whether somebody has asked for it.
    asked: Cell<bool>,
}

/// The blocks of a file, with their names if they have any.
///
/// # Errors
/// The file, or one that it sources, cannot be read or breaks the grammar.
pub fn read(path: &Path) -> Result<Vec<(String, Block)>> {
    let mut tokens = Vec::new();
    read_tokens(path, 0, &mut tokens)?;
    parse(&tokens, path)
}

/// The blocks of a text. `read_source` gives the text of a file that it sources.
#[cfg(test)]
pub fn parse_text(text: &str) -> Result<Vec<(String, Block)>> {
    let mut tokens = Vec::new();
    split(text, &Rc::from(Path::new("text")), 0, &mut tokens)?;
    parse(&tokens, Path::new("text"))
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Text(String),
    Sign(char),
}

fn read_tokens(path: &Path, depth: usize, tokens: &mut Vec<(At, Token)>) -> Result<()> {
    let text = input::read_text(path)?;
    split(&text, &Rc::from(path), depth, tokens)
}

/// The file that another one names by a path. Files move without the directories that they were in, so one of that name beside it will do.
fn named(by: &Path, path: &str) -> PathBuf {
    let directory = by.parent().unwrap_or(Path::new(""));
    let there = directory.join(path);
    match Path::new(path).file_name() {
        Some(name) if !there.exists() => directory.join(name),
        _ => there,
    }
}

fn split(text: &str, file: &Rc<Path>, depth: usize, tokens: &mut Vec<(At, Token)>) -> Result<()> {
    const SIGNS: &[char] = &['{', '}', '[', ']', ',', '=', ';', ':', '?'];
    let mut sourcing = false;
    for (i, mut line) in text.lines().enumerate() {
        let at = At { file: file.clone(), line: u32::try_from(i + 1).unwrap_or(u32::MAX) };
        loop {
            line = line.trim_start();
            let Some(first) = line.chars().next().filter(|&c| c != '#') else { break };
            if SIGNS.contains(&first) {
                tokens.push((at.clone(), Token::Sign(first)));
                line = &line[1..];
                continue;
            }
            let end = line.find(|c: char| c.is_whitespace() || SIGNS.contains(&c)).unwrap_or(line.len());
            let (word, rest) = line.split_at(end);
            line = rest;
            if std::mem::take(&mut sourcing) {
                if depth + 1 >= MAX_NESTING {
                    bail!("{at}: files source each other more than {MAX_NESTING} deep");
                }
                read_tokens(&named(file, word), depth + 1, tokens)
                    .with_context(|| format!("{at}: cannot source {word}"))?;
            } else if word == "source" {
                sourcing = true;
            } else {
                tokens.push((at.clone(), Token::Text(word.to_owned())));
            }
        }
    }
    if sourcing {
        bail!("{}: 'source' names no file", file.display());
    }
    Ok(())
}

fn parse(tokens: &[(At, Token)], path: &Path) -> Result<Vec<(String, Block)>> {
    let mut parser = Parser { tokens, next: 0, path };
    let mut blocks = Vec::new();
    while !parser.at_end() {
        let (at, kind) = parser.word("a block: TYPE NAME {")?;
        let name = match parser.peek(0) {
            Some(Token::Sign('{')) => String::new(),
            _ => parser.word("the name of the block, or '{'")?.1,
        };
        parser.sign('{')?;
        blocks.push((name, parser.block(kind, at, 1)?));
    }
    Ok(blocks)
}

struct Parser<'a> {
    tokens: &'a [(At, Token)],
    next: usize,
    path: &'a Path,
}

impl Parser<'_> {
    fn at_end(&self) -> bool {
        self.next == self.tokens.len()
    }

    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.next + ahead).map(|t| &t.1)
    }

    /// The place of the next token, or the end of the file.
    fn here(&self) -> String {
        match self.tokens.get(self.next) {
            Some((at, _)) => at.to_string(),
            None => match self.tokens.last() {
                Some((at, _)) => format!("{at}: behind the last line"),
                None => self.path.display().to_string(),
            },
        }
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match self.peek(0) {
            Some(Token::Text(text)) => format!("'{text}'"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
            None => "the end of the file".to_owned(),
        };
        bail!("{}: expected {what}, found {found}", self.here())
    }

    fn word(&mut self, what: &str) -> Result<(At, String)> {
        match self.tokens.get(self.next) {
            Some((at, Token::Text(text))) => {
                self.next += 1;
                Ok((at.clone(), text.clone()))
            }
            _ => self.expected(what),
        }
    }

    fn sign(&mut self, sign: char) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { self.expected(&format!("'{sign}'")) }
    }

    fn takes(&mut self, sign: char) -> bool {
        let takes = self.peek(0) == Some(&Token::Sign(sign));
        self.next += usize::from(takes);
        takes
    }

    /// What is behind the opening brace.
    fn block(&mut self, kind: String, at: At, depth: usize) -> Result<Block> {
        let mut block = Block { kind, at, params: Vec::new() };
        self.deep_enough(depth)?;
        loop {
            if self.takes('}') {
                return Ok(block);
            }
            if self.takes(',') {
                continue;
            }
            let (at, mut name) = self.word("a parameter or '}'")?;
            while let Some(Token::Text(word)) = self.peek(0) {
                name.push(' ');
                name.push_str(word);
                self.next += 1;
            }
            if !self.takes('=') {
                return self.expected(&format!("'=' behind '{name}'"));
            }
            let (_, value) = self.value(depth + 1)?;
            block.params.push(Param { name, at, value, asked: Cell::new(false) });
            if !matches!(self.peek(0), Some(Token::Sign(',' | '}'))) {
                return self.expected("',' or '}'");
            }
        }
    }

    fn deep_enough(&self, depth: usize) -> Result<()> {
        if depth > MAX_NESTING {
            bail!("{}: blocks and lists are nested more than {MAX_NESTING} deep", self.here());
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(At, Value)> {
        self.deep_enough(depth)?;
        if let Some((at, Token::Sign('['))) = self.tokens.get(self.next) {
            let at = at.clone();
            self.next += 1;
            return Ok((at, Value::List(self.list(depth)?)));
        }
        let (at, word) = self.word("a value")?;
        let named = matches!(self.peek(0), Some(Token::Text(_))) && self.peek(1) == Some(&Token::Sign('{'));
        self.next += usize::from(named);
        if self.takes('{') {
            let block = self.block(word, at.clone(), depth)?;
            return Ok((at, Value::Block(block)));
        }
        Ok((at, number(&word).unwrap_or(Value::Word(word))))
    }

    /// What is behind the opening bracket.
    fn list(&mut self, depth: usize) -> Result<Vec<(At, Value)>> {
        let mut list = Vec::new();
        loop {
            if self.takes(']') {
                return Ok(list);
            }
            if self.takes(',') {
                continue;
            }
            list.push(self.value(depth + 1)?);
            if !matches!(self.peek(0), Some(Token::Sign(',' | ']'))) {
                return self.expected("',' or ']'");
            }
        }
    }
}

fn number(word: &str) -> Option<Value> {
    if !word.starts_with(|c: char| c.is_ascii_digit() || ['-', '+', '.'].contains(&c)) {
        return None;
    }
    if let Ok(int) = word.parse() {
        return Some(Value::Int(int));
    }
    if let Some(hex) = word.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok().map(Value::Int);
    }
    word.parse().ok().filter(|f: &f64| f.is_finite()).map(Value::Float)
}

impl Block {
    fn find(&self, name: &str) -> Option<(&At, &Value)> {
        let param = self.params.iter().rfind(|param| param.name == name)?;
        param.asked.set(true);
        Some((&param.at, &param.value))
    }

    /// Blocks within, also those in lists.
    fn blocks(value: &Value) -> Vec<&Self> {
        match value {
            Value::Block(block) => vec![block],
            Value::List(list) => list.iter().flat_map(|(_, value)| Self::blocks(value)).collect(),
            _ => Vec::new(),
        }
    }

    /// Places and names of parameters that nobody has asked for, here and in blocks that somebody has asked for. Not those that
    /// another one [replaces](Self::replaced).
    pub fn unknown(&self) -> Vec<(&At, &str)> {
        let mut all = Vec::new();
        for (i, param) in self.params.iter().enumerate() {
            if param.asked.get() {
                all.extend(Self::blocks(&param.value).into_iter().flat_map(Self::unknown));
            } else if !self.params[i + 1..].iter().any(|later| later.name == param.name) {
                all.push((&param.at, param.name.as_str()));
            }
        }
        all
    }

    /// Places of parameters that another one of the same name in the same block replaces, here and in blocks within.
    pub fn replaced(&self) -> Vec<(&At, &str)> {
        let mut all = Vec::new();
        for (i, param) in self.params.iter().enumerate() {
            if self.params[i + 1..].iter().any(|later| later.name == param.name) {
                all.push((&param.at, param.name.as_str()));
            }
            all.extend(Self::blocks(&param.value).into_iter().flat_map(Self::replaced));
        }
        all
    }

    /// Where a parameter stands, or the block if it has none of that name.
    pub fn place(&self, name: &str) -> &At {
        self.find(name).map_or(&self.at, |p| p.0)
    }

    fn missing<T>(&self, name: &str) -> Result<T> {
        bail!("{}: the block {} has no '{name}'", self.at, self.kind)
    }

    /// A number, whole or not.
    ///
    /// # Errors
    /// It is something else.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        #[expect(clippy::cast_precision_loss, reason = "no parameter is that large")]
        match self.find(name) {
            None => Ok(None),
            Some((_, Value::Int(i))) => Ok(Some(*i as f64)),
            Some((_, Value::Float(f))) => Ok(Some(*f)),
            Some((at, other)) => bail!("{at}: '{name}' is a number, not {}", other.kind()),
        }
    }

    /// A number that must be there.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub fn required_number(&self, name: &str) -> Result<f64> {
        self.number(name)?.map_or_else(|| self.missing(name), Ok)
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// It is something else, or outside.
    pub fn whole(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> Result<Option<u64>> {
        let Some((at, value)) = self.find(name) else { return Ok(None) };
        let Some(int) = value.integral() else {
            bail!("{at}: '{name}' is a whole number, not {}", value.kind());
        };
        if !range.contains(&int) {
            bail!("{at}: '{name}' is {int}, not in {}..={}", range.start(), range.end());
        }
        Ok(Some(int.unsigned_abs()))
    }

    /// A whole number that must be there.
    ///
    /// # Errors
    /// It is missing, something else, or outside of the range.
    pub fn required_whole(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> Result<u64> {
        self.whole(name, range)?.map_or_else(|| self.missing(name), Ok)
    }

    /// A word.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub fn word(&self, name: &str) -> Result<&str> {
        match self.find(name) {
            None => self.missing(name),
            Some((_, Value::Word(word))) => Ok(word),
            Some((at, other)) => bail!("{at}: '{name}' is a word, not {}", other.kind()),
        }
    }

    /// Whether there is such a parameter.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// A list.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub fn list(&self, name: &str) -> Result<&[(At, Value)]> {
        match self.find(name) {
            None => self.missing(name),
            Some((_, Value::List(list))) => Ok(list),
            Some((at, other)) => bail!("{at}: '{name}' is a list, not {}", other.kind()),
        }
    }

    /// A block.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub fn block(&self, name: &str) -> Result<&Block> {
        match self.find(name) {
            None => self.missing(name),
            Some((_, Value::Block(block))) => Ok(block),
            Some((at, other)) => bail!("{at}: '{name}' is a block, not {}", other.kind()),
        }
    }

    /// A list of whole numbers that are not negative; empty if there is none of that name.
    ///
    /// # Errors
    /// It is something else, or has something else in it.
    pub fn naturals(&self, name: &str) -> Result<Vec<u64>> {
        let natural = |(at, value): &(At, Value)| match value.integral() {
            Some(i) if i >= 0 => Ok(i.unsigned_abs()),
            Some(i) => bail!("{at}: '{name}' has {i}, and must not be negative"),
            None => bail!("{at}: '{name}' has whole numbers, not {}", value.kind()),
        };
        self.optional_list(name)?.iter().map(natural).collect()
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// It is missing, or has something else in it.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        #[expect(clippy::cast_precision_loss, reason = "no parameter is that large")]
        let number = |(at, value): &(At, Value)| match value {
            Value::Int(i) => Ok(*i as f64),
            Value::Float(f) => Ok(*f),
            other => bail!("{at}: '{name}' has numbers, not {}", other.kind()),
        };
        self.list(name)?.iter().map(number).collect()
    }

    /// A list, or an empty one if there is none of that name.
    ///
    /// # Errors
    /// It is something else.
    pub fn optional_list(&self, name: &str) -> Result<&[(At, Value)]> {
        if self.has(name) { self.list(name) } else { Ok(&[]) }
    }

    /// The path of a file that a parameter names: counted from the file that has the parameter, or of that name beside it.
    ///
    /// # Errors
    /// As for [`word`](Self::word).
    pub fn file(&self, name: &str) -> Result<PathBuf> {
        let word = self.word(name)?;
        Ok(named(&self.place(name).file, word))
    }
}
