//! Where data go: which stream takes what a host writes, and which takes what collection moves. A new policy is a file here with
//! a type that has [`PlacementPolicy`], and a variant of [`Placement`].
//!
//! A set has a stream for each placement handle, which hosts write to, and *relocation streams*, which collection writes to. Each stream has a
//! superblock of its own open. What ends up in one superblock is erased together, so a policy brings together what dies together.

mod by_handle;
mod mixed;
mod policy;
mod together;

use by_handle::ByHandle;
use mixed::Mixed;
pub(crate) use policy::{PlacementPolicy, Writer};
use together::Together;

/// The policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// Collection mixes the data of all handles.
    Mixed,
    /// Collection, too, keeps the data of each handle by itself.
    ByHandle,
    /// Collection writes where the host does.
    Together,
}

impl Placement {
    /// How it places data.
    pub fn policy(self) -> &'static dyn PlacementPolicy {
        match self {
            Placement::Mixed => &Mixed,
            Placement::ByHandle => &ByHandle,
            Placement::Together => &Together,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Placement; 3] = [Placement::Mixed, Placement::ByHandle, Placement::Together];

    #[test]
    fn data_never_leave_the_streams_that_there_are() {
        for (placement, handles) in ALL.into_iter().flat_map(|p| [1, 4].map(|handles| (p, handles))) {
            let policy = placement.policy();
            let streams = policy.relocation_streams(handles);
            assert!(streams >= 1, "{placement:?}");
            let writers = (0..handles).map(Writer::Host).chain((0..streams).map(Writer::Relocation));
            for writer in writers {
                match policy.relocated(writer) {
                    Writer::Host(handle) => assert!(handle < handles, "{placement:?}"),
                    Writer::Relocation(stream) => assert!(stream < streams, "{placement:?}"),
                }
                assert!(policy.handle(writer).is_none_or(|handle| handle < handles), "{placement:?}");
            }
            assert_eq!([0, handles - 1, handles].map(|h| policy.host(h, handles)), [0, handles - 1, 0]);
        }
    }

    #[test]
    fn policies_place_as_their_names_say() {
        let [mixed, by_handle, together] = ALL.map(Placement::policy);
        assert_eq!([mixed, by_handle, together].map(|p| p.relocation_streams(3)), [1, 3, 1]);
        let of_host = [mixed, by_handle, together].map(|p| p.relocated(Writer::Host(0)));
        assert_eq!(of_host, [Writer::Relocation(0), Writer::Relocation(0), Writer::Host(0)]);
        assert_eq!(mixed.relocated(Writer::Host(2)), Writer::Relocation(0));
        assert_eq!(by_handle.relocated(Writer::Host(2)), Writer::Relocation(2));
        assert_eq!(by_handle.relocated(Writer::Relocation(2)), Writer::Relocation(2));
        assert_eq!([mixed, by_handle].map(|p| p.handle(Writer::Relocation(0))), [None, Some(0)]);
    }
}
