//! R2Ts that the host has not served yet, by transfer tag.

/// What one R2T asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    /// The command's place.
    pub slot: u16,
    /// Offset within the command's data of the byte that comes next.
    pub at: u32,
    /// Where the range that was asked for ends.
    pub end: u32,
    /// Later R2Ts have larger numbers.
    serial: u64,
    open: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Requests {
    table: Vec<Request>,
    free: Vec<u16>,
    serial: u64,
}

impl Requests {
    /// A fresh transfer tag for a range of a command's data; `None` if there are no more tags.
    pub fn open(&mut self, slot: u16, at: u32, end: u32) -> Option<u16> {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => {
                let tag = u16::try_from(self.table.len()).ok()?;
                self.table.push(Request::default());
                tag
            }
        };
        self.serial += 1;
        *self.table.get_mut(usize::from(tag))? = Request { slot, at, end, serial: self.serial, open: true };
        Some(tag)
    }

    /// What an outstanding transfer tag stands for.
    pub fn get(&mut self, tag: u16) -> Option<&mut Request> {
        self.table.get_mut(usize::from(tag)).filter(|request| request.open)
    }

    /// Everything has come: the tag may be given again.
    pub fn close(&mut self, tag: u16) {
        if let Some(request) = self.get(tag) {
            request.open = false;
            self.free.push(tag);
        }
    }

    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.table.len()
    }

    /// The number of the R2T that has been outstanding for longest.
    pub fn oldest(&self) -> Option<u64> {
        self.table.iter().filter(|request| request.open).map(|request| request.serial).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_unique_while_they_are_outstanding() {
        let mut requests = Requests::default();
        let a = requests.open(5, 0, 10).unwrap();
        let b = requests.open(5, 10, 20).unwrap();
        assert!(a != b && !requests.is_empty());
        assert_eq!(requests.oldest(), Some(1));
        requests.close(a);
        requests.close(a);
        assert!(requests.get(a).is_none());
        assert_eq!(requests.oldest(), Some(2));
        let c = requests.open(6, 0, 1).unwrap();
        assert!(c == a && requests.get(c).is_some_and(|r| r.slot == 6));
        requests.close(b);
        requests.close(c);
        assert!(requests.is_empty() && requests.oldest().is_none());
    }
}
