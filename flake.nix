{
  description = "NVMe drive in software, and a laboratory for databases on it";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      forEachSystem = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      workspace = (fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;

      tranche =
        {
          lib,
          rustPlatform,
          installShellFiles,
          pkg-config,
          openssl,
        }:
        rustPlatform.buildRustPackage {
          pname = "tranche";
          inherit (workspace) version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [
            "--package"
            "tranche"
          ];
          nativeBuildInputs = [
            pkg-config
            installShellFiles
          ];
          buildInputs = [ openssl ];
          # The tests need root, FUSE, databases and a guest: `make test` runs them.
          doCheck = false;
          postInstall = ''
            $out/bin/tranche man man
            installManPage man/*
            for shell in bash zsh fish; do
              $out/bin/tranche completions $shell > completion.$shell
            done
            installShellCompletion --cmd tranche --bash completion.bash --zsh completion.zsh --fish completion.fish
          '';
          meta = {
            description = "NVMe drive in software, and a laboratory for databases on it";
            license = lib.licenses.asl20;
            platforms = systems;
            mainProgram = "tranche";
          };
        };
    in
    {
      packages = forEachSystem (pkgs: {
        default = pkgs.callPackage tranche { };
      });

      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell {
          inputsFrom = [ self.packages.${pkgs.stdenv.hostPlatform.system}.default ];
          packages = [
            pkgs.clippy
            pkgs.rustfmt
            pkgs.fio
            pkgs.nvme-cli
          ];
        };
      });
    };
}
