//! The Streams directive (Base 8.1.8.3): a host's streams are placement handles of the namespace's NVM Set. Handle 0 is that of
//! writes without a stream.

use crate::core::{ControllerId, Failure, Namespace, Outcome, Reply};
use crate::drive::Drive;
use ftl::{PAGE, SetId};
use nvme::directive::{
    Directive, DirectiveParameters, DirectiveType, EnableDirective, StreamsParameters, operation,
};
use nvme::zerocopy::IntoBytes;
use nvme::{NSID_ALL, Status, U16, U32};

/// Streams of one controller on one namespace; they are gone with a reset.
#[derive(Clone, Default, Debug)]
pub(crate) struct Streams {
    /// Resources of its own; 0 if it uses those that are left.
    allocated: u16,
    /// Open streams, oldest first: identifier and placement handle.
    open: Vec<(u16, u8)>,
}

impl Streams {
    /// Resources that are not there for others.
    fn taken(&self) -> usize {
        self.open.len().max(self.allocated.into())
    }

    /// Closes all streams; resources stay allocated.
    pub fn release(&mut self) {
        self.open.clear();
    }
}

impl Drive {
    /// Whether the drive has directives at all: then it has placement handles.
    pub(crate) fn has_directives(&self) -> bool {
        self.has_fdp()
    }

    /// Whether a namespace can have streams: Flexible Data Placement gives its handles to others.
    fn can_stream(&self, ns: &Namespace) -> bool {
        self.core.ftl.handles(ns.set) > 1 && !self.is_placing(ns.set)
    }

    /// Streams on a set, by controller and namespace.
    fn streams_of(&self, set: SetId) -> impl Iterator<Item = &Streams> {
        let on = move |nsid: &u32| self.core.namespaces.get(*nsid).is_some_and(|ns| ns.set == set);
        self.core
            .controllers
            .iter()
            .flat_map(move |(_, c)| c.streams.iter().filter(move |(n, _)| on(n)).map(|(_, s)| s))
    }

    /// Streams that a set has beyond those that are taken.
    fn available(&self, set: SetId) -> usize {
        let taken: usize = self.streams_of(set).map(Streams::taken).sum();
        (self.core.ftl.handles(set) - 1).saturating_sub(taken)
    }

    /// The placement handle of a write with a stream identifier.
    #[cold]
    pub(crate) fn place_by_stream(
        &mut self,
        id: ControllerId,
        nsid: u32,
        stream: u16,
    ) -> Result<u8, Failure> {
        let ns = self.core.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
        let set = ns.set;
        let streams = self.core.controller(id)?.streams.get(&nsid).ok_or(Failure::field(50))?;
        if stream == 0 {
            return Ok(0);
        }
        if let Some((_, handle)) = streams.open.iter().find(|(s, _)| *s == stream) {
            return Ok(*handle);
        }
        let own = usize::from(streams.allocated);
        let full = own > 0 && streams.open.len() >= own;
        if own == 0 && self.available(set) == 0 {
            // As if it had no stream (Base 8.1.8.3).
            return Ok(0);
        }
        if full {
            // The one that was opened first is closed for it.
            self.core.controller_mut(id)?.streams.entry(nsid).or_default().open.remove(0);
        }
        let taken: Vec<u8> = self.streams_of(set).flat_map(|s| s.open.iter().map(|(_, h)| *h)).collect();
        let free = (1..self.core.ftl.handles(set) as u8).find(|h| !taken.contains(h));
        let Some(handle) = free else { return Ok(0) };
        self.core.controller_mut(id)?.streams.entry(nsid).or_default().open.push((stream, handle));
        Ok(handle)
    }

    /// Directive Send (Base 5.1.7).
    pub(crate) fn directive_send(&mut self, id: ControllerId, c: Directive) -> Outcome {
        if !self.has_directives() {
            return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
        }
        match (c.dtype, c.doper) {
            (DirectiveType::IDENTIFY, operation::ENABLE) => self.enable_directive(id, c),
            (DirectiveType::STREAMS, operation::RELEASE_IDENTIFIER) => {
                self.enabled_streams(id, c.nsid)?.open.retain(|(s, _)| *s != c.dspec);
                Ok(Reply::Done(0))
            }
            (DirectiveType::STREAMS, operation::RELEASE_RESOURCES) => {
                *self.enabled_streams(id, c.nsid)? = Streams::default();
                Ok(Reply::Done(0))
            }
            _ => Err(Failure::field(44)),
        }
    }

    /// Streams of a namespace for which the directive is enabled.
    fn enabled_streams(&mut self, id: ControllerId, nsid: u32) -> Result<&mut Streams, Failure> {
        self.core.attached(id, nsid)?;
        self.core.controller_mut(id)?.streams.get_mut(&nsid).ok_or(Failure::field(44))
    }

    fn enable_directive(&mut self, id: ControllerId, c: Directive) -> Outcome {
        let asked = EnableDirective::from_bits(c.cdw12.into());
        if asked.tdtype() != DirectiveType::STREAMS {
            // Identify is always enabled, and Data Placement where Flexible Data Placement is.
            return Err(Failure::field(49));
        }
        let mut nsids = vec![c.nsid];
        if c.nsid == NSID_ALL {
            let attached = self.core.controller(id)?;
            nsids = self.core.namespaces.ids().into_iter().filter(|n| attached.is_attached(*n)).collect();
            nsids.retain(|n| self.core.namespaces.get(*n).is_some_and(|ns| self.can_stream(ns)));
        } else if !self.can_stream(self.core.attached(id, c.nsid)?) {
            return Err(Failure::field(49));
        }
        let controller = self.core.controller_mut(id)?;
        for nsid in nsids {
            if asked.endir() {
                controller.streams.entry(nsid).or_default();
            } else {
                controller.streams.remove(&nsid);
            }
        }
        Ok(Reply::Done(0))
    }

    /// Directive Receive (Base 5.1.6).
    pub(crate) fn directive_receive(&mut self, id: ControllerId, c: Directive) -> Outcome {
        if !self.has_directives() {
            return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
        }
        if c.dwords * 4 > u64::from(self.core.config.max_transfer) {
            return Err(Failure::field(40));
        }
        let mut data = match (c.dtype, c.doper) {
            (DirectiveType::IDENTIFY, operation::RETURN_PARAMETERS) => {
                self.directive_parameters(id, c.nsid)?
            }
            (DirectiveType::STREAMS, operation::RETURN_PARAMETERS) => self.streams_parameters(id, c.nsid)?,
            (DirectiveType::STREAMS, operation::GET_STATUS) => {
                let open = &self.enabled_streams(id, c.nsid)?.open;
                let mut status = (open.len() as u16).to_le_bytes().to_vec();
                status.extend(open.iter().flat_map(|(s, _)| s.to_le_bytes()));
                status
            }
            (DirectiveType::STREAMS, operation::ALLOCATE_RESOURCES) => {
                return self.allocate_streams(id, c);
            }
            _ => return Err(Failure::field(44)),
        };
        data.resize((c.dwords * 4) as usize, 0);
        Ok(Reply::Data(data, 0))
    }

    fn directive_parameters(&self, id: ControllerId, nsid: u32) -> Result<Vec<u8>, Failure> {
        let ns = self.core.attached(id, nsid)?;
        let (streams, placement) = (self.can_stream(ns), self.is_placing(ns.set));
        let enabled = self.core.controller(id)?.streams.contains_key(&nsid);
        let mut parameters = DirectiveParameters::default();
        parameters.supported[0] = 1 | u8::from(streams) << 1 | u8::from(placement) << 2;
        parameters.enabled[0] = 1 | u8::from(enabled) << 1 | u8::from(placement) << 2;
        parameters.persistent[0] = u8::from(placement) << 2;
        Ok(parameters.as_bytes().to_vec())
    }

    fn streams_parameters(&self, id: ControllerId, nsid: u32) -> Result<Vec<u8>, Failure> {
        let ns = self.core.attached(id, nsid)?;
        let mine = self.core.controller(id)?.streams.get(&nsid).ok_or(Failure::field(44))?;
        let properties = self.core.set_properties(ns.set);
        if properties.program_pages == 0 {
            return Err(Failure::field(44));
        }
        let (mut limit, mut available, mut open) = (0, 0, 0);
        for set in (0..self.core.ftl.set_count()).map(|i| SetId(i as u8)).filter(|s| !self.is_placing(*s)) {
            limit += self.core.ftl.handles(set) - 1;
            available += self.available(set);
            open += self.streams_of(set).filter(|s| s.allocated == 0).map(|s| s.open.len()).sum::<usize>();
        }
        let unit = properties.program_pages * PAGE;
        let units = properties.superblock_pages / properties.program_pages;
        let parameters = StreamsParameters {
            msl: U16::new(limit as u16),
            nssa: U16::new(available as u16),
            nsso: U16::new(open as u16),
            sws: U32::new(unit >> ns.shift),
            sgs: U16::new(u16::try_from(units).unwrap_or(u16::MAX)),
            nsa: U16::new(mine.allocated),
            nso: U16::new(mine.open.len() as u16),
            ..Default::default()
        };
        Ok(parameters.as_bytes().to_vec())
    }

    /// Allocate Resources: as many as asked for, or as there are. Streams that are open count among them.
    fn allocate_streams(&mut self, id: ControllerId, c: Directive) -> Outcome {
        let set = self.core.attached(id, c.nsid)?.set;
        let free = self.available(set);
        let mine = self.enabled_streams(id, c.nsid)?;
        let asked = c.cdw12 as u16;
        if asked == 0 || mine.allocated > 0 {
            return Err(Failure::field(48));
        }
        let given = usize::from(asked).min(free + mine.open.len());
        if given == 0 {
            return Err(Failure::transient(Status::STREAM_ALLOCATION_FAILED));
        }
        mine.allocated = given as u16;
        let excess = mine.open.len().saturating_sub(given);
        mine.open.drain(..excess);
        Ok(Reply::Done(given as u32))
    }
}
